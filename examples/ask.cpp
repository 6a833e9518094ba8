// Asks a model one question and prints the answer as it comes: ask MODEL.gguf QUESTION
#include <colibri/colibri.hpp>
#include <iostream>

int main(int argc, char** argv) try {
    if (argc != 3) {
        std::cerr << "usage: ask MODEL.gguf QUESTION\n";
        return 1;
    }
    auto model = colibri::model::open(argv[1]).value();
    colibri::chat chat{model, {.context = 4096, .cache_k = colibri::kv_type::q8_0}};
    for (std::string_view piece : chat.ask(argv[2])) std::cout << piece << std::flush;
    std::cout << '\n';
} catch (const colibri::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 2;
}
