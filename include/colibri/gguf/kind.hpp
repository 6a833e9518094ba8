// What a GGUF file holds, said in words: a model, or one of the other things that come as GGUF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "colibri/gguf/file.hpp"

namespace colibri::gguf {

/// What a file is for, by its metadata and whether it has weights.
enum class file_kind : std::uint8_t {
    model,           ///< weights of a model, of any architecture
    adapter,         ///< a LoRA adapter
    control_vector,  ///< directions that are added to a model's activations
    projector,       ///< the picture or sound part of a multimodal model (mmproj)
    importance,      ///< an importance matrix, made for quantising
    vocabulary,      ///< a model's metadata and tokens without weights
};

[[nodiscard]] inline file_kind kind_of(const file& gguf) {
    const auto text = [&](std::string_view key) {
        return gguf.meta().get_or<std::string_view>(key, {}).value_or(std::string_view{});
    };
    const std::string_view type = text("general.type");
    const std::string_view architecture = text("general.architecture");
    if (type == "adapter" || gguf.meta().contains("adapter.type")) return file_kind::adapter;
    if (type == "imatrix" || gguf.meta().contains("imatrix.chunk_count")) return file_kind::importance;
    if (architecture == "controlvector") return file_kind::control_vector;
    if (architecture == "clip" || type == "mmproj") return file_kind::projector;
    return gguf.tensors().empty() ? file_kind::vocabulary : file_kind::model;
}

/// The kind as a noun phrase without a verb, with what it belongs to where the file says it: "a LoRA adapter for llama
/// models". Safe for a terminal.
[[nodiscard]] inline std::string kind_text(const file& gguf) {
    const auto named = gguf.meta().get_or<std::string_view>("general.architecture", {});
    const std::string architecture = escaped(named.value_or(std::string_view{}), 40);
    const bool known = !architecture.empty();
    switch (kind_of(gguf)) {
        case file_kind::adapter: {
            const auto type = gguf.meta().get_or<std::string_view>("adapter.type", "lora");
            const bool lora = type.value_or(std::string_view("lora")) == "lora";
            return concat(lora ? "a LoRA adapter" : "an adapter",
                          known ? concat(" for ", architecture, " models") : "");
        }
        case file_kind::control_vector: return "a control vector";
        case file_kind::projector: {
            const bool vision = gguf.meta().get_or<bool>("clip.has_vision_encoder", false).value_or(false);
            const bool audio = gguf.meta().get_or<bool>("clip.has_audio_encoder", false).value_or(false);
            const std::string_view what = vision && audio ? "pictures and sound" : audio ? "sound" : "pictures";
            return concat("a multimodal projector (mmproj), the part of a model that takes in ", what);
        }
        case file_kind::importance: return "an importance matrix (imatrix), made for quantising";
        case file_kind::vocabulary:
            return known ? concat("metadata of a model (architecture ", architecture, ") without weights")
                         : "metadata without weights";
        case file_kind::model: break;
    }
    return known ? concat("a model (architecture ", architecture, ")") : "a model that doesn't name its architecture";
}

/// Nothing for a file with a model's weights; else the refusal, which says what the file is and what to do.
/// Errors: unsupported.
[[nodiscard]] inline result<void> require_model(const file& gguf) {
    std::string_view advice;
    switch (kind_of(gguf)) {
        case file_kind::model: return {};
        case file_kind::adapter:
        case file_kind::control_vector:
            advice = "it changes a model and can't be run alone; choose the model's own file";
            break;
        case file_kind::projector: advice = "it can't be run alone; choose the language model's file"; break;
        case file_kind::importance: advice = "there is nothing in it to run; choose the model's file"; break;
        case file_kind::vocabulary:
            advice = "there is nothing in it to run; it can be inspected and used to tokenize";
            break;
    }
    return error{errc::unsupported, concat("this is ", kind_text(gguf), ", not a language model: ", advice),
                 error::no_offset, quoted(gguf.parts().empty() ? "" : gguf.parts()[0].path.string())};
}

}  // namespace colibri::gguf
