// The weights of a Hugging Face folder: one .safetensors file or several with an index, as one list of tensors.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/safetensors.hpp"
#include "colibri/io/file_reader.hpp"

namespace colibri::convert {

/// A tensor and the file that it is in.
struct source_tensor {
    stored_tensor stored;
    std::size_t file = 0;
};

/// All tensors of a model by name. Reads are thread-safe.
class weight_files {
public:
    /// `path`: a folder with model.safetensors.index.json, model.safetensors or a single other .safetensors file; or a file.
    /// Errors: those of read_safetensors and of opening, with the file as context; split (files and index contradict each
    /// other), not_found (no weights).
    [[nodiscard]] static result<weight_files> open(const std::filesystem::path& path);

    /// By name.
    [[nodiscard]] const std::map<std::string, source_tensor, std::less<>>& tensors() const noexcept { return tensors_; }
    [[nodiscard]] const source_tensor* find(std::string_view name) const {
        const auto at = tensors_.find(name);
        return at == tensors_.end() ? nullptr : &at->second;
    }
    [[nodiscard]] std::vector<std::filesystem::path> paths() const {
        std::vector<std::filesystem::path> out;
        for (const auto& file : files_) out.push_back(file->path());
        return out;
    }
    /// Fills `out` from byte `offset` of the tensor's data on. Errors: truncated, io.
    [[nodiscard]] result<void> read(const source_tensor& tensor, std::uint64_t offset, std::span<std::byte> out) const {
        return files_[tensor.file]->read_at(tensor.stored.offset + offset, out);
    }

private:
    [[nodiscard]] result<void> add(const std::filesystem::path& path);
    [[nodiscard]] result<void> add_indexed(const std::filesystem::path& index);

    std::vector<std::unique_ptr<file_reader>> files_;
    std::map<std::string, source_tensor, std::less<>> tensors_;
};

inline result<weight_files> weight_files::open(const std::filesystem::path& path) {
    namespace fs = std::filesystem;
    weight_files out;
    std::error_code problem;
    if (!fs::is_directory(path, problem)) {
        if (auto ok = out.add(path); !ok) return std::move(ok).error();
        return out;
    }
    const auto index = path / "model.safetensors.index.json";
    if (fs::exists(index, problem)) {
        if (auto ok = out.add_indexed(index); !ok) return std::move(ok).error();
        return out;
    }
    auto only = path / "model.safetensors";
    if (!fs::exists(only, problem)) {
        std::vector<fs::path> found;
        for (const auto& entry : fs::directory_iterator(path, problem)) {
            if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
        }
        if (found.size() != 1) {
            return error{errc::not_found,
                         concat("the folder has no model.safetensors and no model.safetensors.index.json",
                                found.empty() ? "" : ", but several other .safetensors files; name the one to convert"),
                         error::no_offset, quoted(path.string())};
        }
        only = found[0];
    }
    if (auto ok = out.add(only); !ok) return std::move(ok).error();
    return out;
}

inline result<void> weight_files::add(const std::filesystem::path& path) {
    auto file = file_reader::open(path);
    if (!file) return std::move(file).error();
    auto tensors = read_safetensors(**file);
    if (!tensors) return std::move(tensors).error().within(quoted(path.string()));
    for (auto& tensor : *tensors) {
        const auto [at, added] = tensors_.try_emplace(tensor.name);
        if (!added) {
            return error{errc::duplicate,
                         concat("the tensor ", quoted(tensor.name), " is also in ",
                                quoted(files_[at->second.file]->path().filename().string())),
                         error::no_offset, quoted(path.string())};
        }
        at->second = {std::move(tensor), files_.size()};
    }
    files_.push_back(std::move(*file));
    return {};
}

inline result<void> weight_files::add_indexed(const std::filesystem::path& index) {
    const auto wrong = [&](std::string message) {
        return error{errc::split, std::move(message), error::no_offset, quoted(index.string())};
    };
    auto tree = read_json_file(index);
    if (!tree) return std::move(tree).error();
    if (!tree->is_object() || !tree->contains("weight_map") || !(*tree)["weight_map"].is_object())
        return wrong("the index has no object 'weight_map'");
    const json& map = (*tree)["weight_map"];
    std::vector<std::string> names;
    for (const auto& [tensor, file] : map.items()) {
        if (!file.is_string()) return wrong(concat("the file of the tensor ", quoted(tensor), " is not a text"));
        const auto& text = file.get_ref<const std::string&>();
        if (text.empty() || text.find('/') != std::string::npos || text == "." || text == "..")
            return wrong(
                concat("the tensor ", quoted(tensor), " is said to be in ", quoted(text), ", which is no file beside the index"));
        names.push_back(text);
    }
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.empty()) return wrong("the index names no files");
    for (const auto& name : names) {
        if (auto ok = add(index.parent_path() / name); !ok) {
            auto e = std::move(ok).error();
            if (e.code == errc::not_found) return wrong(concat("the file ", quoted(name), " is missing"));
            return e;
        }
    }
    for (const auto& [tensor, file] : map.items()) {
        const auto* found = find(tensor);
        if (found == nullptr || files_[found->file]->path().filename().string() != file.get_ref<const std::string&>())
            return wrong(concat("the tensor ", quoted(tensor), " is not in ", quoted(file.get_ref<const std::string&>()),
                                ", where it should be"));
    }
    return {};
}

}  // namespace colibri::convert
