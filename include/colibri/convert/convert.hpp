// Hugging Face folders to GGUF files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colibri/convert/sampling_keys.hpp"
#include "colibri/convert/tensor_stream.hpp"
#include "colibri/convert/tokenizer_keys.hpp"
#include "colibri/convert/weight_type.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/model/hparams.hpp"

namespace colibri::convert {

struct convert_options {
    weight_type type = weight_type::automatic;
    std::string pre;   ///< name of the pre-tokenizer; empty: recognised from tokenizer.json's rules
    std::string name;  ///< general.name; empty: the folder's
};

/// How `conversion::write` goes about it.
struct convert_write_options {
    unsigned threads = 1;
    bool replace = false;       ///< an existing file may be replaced
    progress_fn progress = {};  ///< bytes written; returning false stops
};

/// A model that is ready to be written: everything but the weights has been read and checked. Holds its files open.
class conversion {
public:
    /// `path`: a folder, or the only .safetensors file of one, whose other files lie beside it. Errors: those of weight_files,
    /// find_family, describe_model, plan_tensors, write_tokenizer and read_hparams (values that no engine could use).
    [[nodiscard]] static result<conversion> open(const std::filesystem::path& path, const convert_options& options = {});

    [[nodiscard]] const gguf::metadata& meta() const noexcept { return meta_; }
    [[nodiscard]] const std::vector<planned_tensor>& tensors() const noexcept { return tensors_; }
    [[nodiscard]] const model_family& family() const noexcept { return sizes_.family; }
    /// What the weights become; never `automatic`.
    [[nodiscard]] weight_type type() const noexcept { return type_; }
    /// What the user should know: what the GGUF can't say, and what was left out.
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
    [[nodiscard]] std::uint64_t tensor_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors_) sum += tensor.info.bytes;
        return sum;
    }
    [[nodiscard]] std::uint64_t source_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors_) {
            for (const auto* part : tensor.parts) sum += part->stored.bytes;
        }
        return sum;
    }

    /// Writes the file, which appears under its name when it is complete. The same bytes for any number of threads. Errors:
    /// invalid_argument (it exists, or is one of the sources), io (also: disk full, noticed first), bad_value (a weight),
    /// canceled.
    [[nodiscard]] result<void> write(const std::filesystem::path& path, const convert_write_options& options = {}) const;

private:
    conversion() = default;
    [[nodiscard]] result<void> check_target(const std::filesystem::path& path, bool replace) const;

    std::filesystem::path folder_;
    std::unique_ptr<weight_files> weights_;  // the tensors point into it
    model_sizes sizes_;
    gguf::metadata meta_;
    std::vector<planned_tensor> tensors_;
    weight_type type_ = weight_type::f32;
    std::vector<std::string> notes_;
};

namespace detail {

/// `general.name` of a folder: its own name, whatever way it is written.
[[nodiscard]] inline std::string folder_name(const std::filesystem::path& folder) {
    std::error_code problem;
    const auto whole = std::filesystem::canonical(folder, problem);
    const std::string name = problem ? std::string() : whole.filename().string();
    return name.empty() || !text::is_utf8(name) ? std::string("model") : name;
}

/// How a sentence-transformers folder makes one vector of a text; the number that GGUF has for it, or 0.
[[nodiscard]] inline result<std::uint32_t> pooling_of(const std::filesystem::path& folder) {
    auto pooling = read_optional_json(folder / "1_Pooling", "config.json");
    if (!pooling) return std::move(pooling).error();
    if (truth_of(*pooling, "pooling_mode_mean_tokens", false)) return 1u;
    if (truth_of(*pooling, "pooling_mode_cls_token", false)) return 2u;
    if (truth_of(*pooling, "pooling_mode_lasttoken", false)) return 3u;
    return 0u;
}

}  // namespace detail

inline result<conversion> conversion::open(const std::filesystem::path& path, const convert_options& options) {
    namespace fs = std::filesystem;
    std::error_code problem;
    const fs::path folder = fs::is_directory(path, problem) ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
    const auto config_path = folder / "config.json";
    const auto within = [&](error e) { return std::move(e).within(quoted(folder.string())); };
    if (!fs::exists(path, problem)) return colibri::detail::system_error("open", path, ENOENT);
    conversion out;
    out.folder_ = folder;
    auto weights = weight_files::open(path);
    if (!weights) return std::move(weights).error();
    out.weights_ = std::make_unique<weight_files>(std::move(*weights));
    auto config = read_json_file(config_path);
    if (!config) return std::move(config).error();
    if (!config->is_object())
        return error{errc::bad_type, "the file is no JSON object", error::no_offset, quoted(config_path.string())};
    auto family = find_family(*config);
    if (!family) return within(std::move(family).error());

    out.meta_.set("general.architecture", family->architecture);
    out.meta_.set("general.type", "model");
    out.meta_.set("general.name", options.name.empty() ? detail::folder_name(folder) : options.name);
    auto sizes = describe_model(*config, *family, out.meta_, out.notes_);
    if (!sizes) return within(std::move(sizes).error());
    out.sizes_ = std::move(*sizes);
    if (auto ok = write_sampling(folder, out.meta_, out.notes_); !ok) return within(std::move(ok).error());
    auto pooling = detail::pooling_of(folder);
    if (!pooling) return std::move(pooling).error();
    if (*pooling != 0) out.meta_.set(concat(family->architecture, ".pooling_type"), *pooling);
    auto tensors = plan_tensors(out.sizes_, *out.weights_, out.notes_);
    if (!tensors) return within(std::move(tensors).error());
    out.tensors_ = std::move(*tensors);
    out.type_ = options.type == weight_type::automatic ? dominating_type(out.tensors_) : options.type;
    if (auto ok = choose_types(out.tensors_, out.type_); !ok) return within(std::move(ok).error());
    out.meta_.set("general.file_type", info_of(out.type_).file_type);
    out.meta_.set("general.quantization_version", std::uint32_t{2});
    const tokenizer_source source{folder, &*config, out.sizes_.vocabulary, options.pre};
    if (auto ok = write_tokenizer(source, out.meta_, out.notes_); !ok) return std::move(ok).error();
    // What the engine wouldn't load isn't made: numbers of config.json can be out of range.
    if (auto sound = read_hparams(out.meta_); !sound) return within(std::move(sound).error());
    return out;
}

inline result<void> conversion::check_target(const std::filesystem::path& path, bool replace) const {
    namespace fs = std::filesystem;
    std::error_code problem;
    if (fs::is_directory(path, problem))
        return error{errc::invalid_argument, concat(quoted(path.string()), " is a folder; name the file to write in it")};
    if (fs::exists(path, problem)) {
        const auto is_source = [&](const fs::path& source) { return fs::equivalent(source, path, problem); };
        bool source = false;
        for (const auto& one : weights_->paths()) source = source || is_source(one);
        for (const auto& entry : fs::directory_iterator(folder_, problem)) {
            const auto kind = entry.path().extension();
            source = source || ((kind == ".json" || kind == ".model" || kind == ".jinja" || kind == ".safetensors") &&
                                is_source(entry.path()));
        }
        if (source)
            return error{errc::invalid_argument,
                         concat(quoted(path.string()), " belongs to the model that is to be converted; choose another name")};
        if (!replace) return error{errc::invalid_argument, concat(quoted(path.string()), " exists already; --force replaces it")};
    }
    const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const auto space = fs::space(folder, problem);
    if (!problem && space.available < tensor_bytes()) {
        return error{errc::io,
                     concat("the disk of ", quoted(folder.string()), " has room for ", space.available >> 20, " MiB, but ",
                            tensor_bytes() >> 20, " MiB are needed; free some space or choose another folder")};
    }
    return {};
}

inline result<void> conversion::write(const std::filesystem::path& path, const convert_write_options& options) const {
    if (auto ok = check_target(path, options.replace); !ok) return ok;
    std::vector<gguf::tensor_info> infos;
    for (const auto& tensor : tensors_) infos.push_back(tensor.info);
    auto file = gguf::writer::create(path, meta_, std::move(infos));
    if (!file) return std::move(file).error();
    thread_pool pool(std::max(1u, options.threads));
    tensor_stream stream(*weights_, pool);
    progress now{0, tensor_bytes()};
    for (const auto& tensor : tensors_) {
        auto done = stream.run(tensor, [&](std::span<const std::byte> bytes) -> result<void> {
            if (auto ok = file->write(bytes); !ok) return ok;
            now.done += bytes.size();
            if (options.progress && !options.progress(now))
                return error{errc::canceled, "the conversion was stopped; nothing was written"};
            return {};
        });
        if (!done) return done;
    }
    return file->finish();
}

}  // namespace colibri::convert
