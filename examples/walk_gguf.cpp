// Lists what is in a GGUF file: walk_gguf MODEL.gguf
#include <colibri/colibri.hpp>
#include <iostream>

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: walk_gguf MODEL.gguf\n";
        return 1;
    }
    const auto file = colibri::gguf::file::open(argv[1]);
    if (!file) {
        std::cerr << file.error().text() << '\n';
        return 2;
    }
    for (const auto& [key, value] : file->meta().entries()) {
        std::cout << colibri::quoted(key) << ": ";
        if (value.is_array()) {
            std::cout << value.size() << " x " << name(value.element_type()) << '\n';
        } else if (const auto text = value.as<std::string_view>()) {
            std::cout << colibri::quoted(*text) << '\n';
        } else if (const auto truth = value.as<bool>()) {
            std::cout << (*truth ? "true" : "false") << '\n';
        } else if (const auto number = value.as<double>()) {
            std::cout << colibri::concat(*number) << '\n';
        } else {
            std::cout << "a number of type " << name(value.type()) << '\n';  // above 2^53
        }
    }
    for (const auto& tensor : file->tensors()) {
        std::cout << colibri::quoted(tensor.name) << ": " << name(tensor.type) << ' ' << shape_text(tensor) << '\n';
    }
    std::cout << file->tensors().size() << " tensors, " << file->tensor_bytes() << " bytes\n";
}
