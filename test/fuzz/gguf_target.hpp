// What a fuzzer does with bytes that may be a GGUF file: reads them, and if they are one, uses everything in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "colibri/gguf/file.hpp"
#include "colibri/gguf/listing.hpp"
#include "colibri/gguf/writer.hpp"

namespace fuzz {

/// Stops the program, for a fuzzer to notice; `what` is seen in its stack or debugger.
inline void must(bool sound, [[maybe_unused]] const char* what) {
    if (!sound) std::abort();
}

inline void touch(const colibri::gguf::value& value) {
    using colibri::gguf::value_type;
    (void)value.as<std::int64_t>();
    (void)value.as<float>();
    (void)value.as<bool>();
    (void)value.as<std::string_view>();
    (void)value.to_vector<std::uint32_t>();
    (void)value.to_vector<double>();
    for (std::size_t i = 0; i < value.size() && i < 64; ++i) {
        const auto element = value.element(i);
        must(!value.is_array() || element.type() == value.element_type(), "an element has its array's type");
        if (element.is_array()) touch(element);
    }
    if (value.is_array() && value.element_type() == value_type::string) {
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < value.size(); ++i) bytes += value.text_at(i).size();
        std::string encoded;
        value.encode(encoded);
        must(encoded.size() == 12 + 8 * value.size() + bytes, "all texts are there");
    }
}

/// True if the bytes are a GGUF container. Whatever they are, nothing goes wrong.
inline bool gguf_target(std::span<const std::byte> bytes) {
    using namespace colibri;
    memory_source source(bytes);
    auto got = gguf::file::read(source, "fuzz");
    if (!got) {
        must(!got.error().message.empty(), "an error says something");
        for (const char c : got.error().text())
            must(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "an error is safe to print");
        return false;
    }
    for (const auto& [key, value] : got->meta().entries()) {
        must(got->meta().find(key) == &value, "a key is found");
        touch(value);
    }
    for (const auto& tensor : got->tensors()) {
        must(got->find(tensor.name) == &tensor, "a tensor is found");
        must(tensor.offset <= bytes.size() && tensor.bytes <= bytes.size() - tensor.offset,
             "a tensor is inside the file");
        must(tensor.row_bytes() * tensor.rows() == tensor.bytes, "rows make up a tensor");
    }
    (void)gguf::require_model(*got);
    must(!gguf::listing_text(*got).empty(), "a listing has text");
    must(gguf::listing_json(*got).back() == '}', "a listing has JSON");
    // Written and read again, the header says the same.
    std::vector<gguf::tensor_info> tensors(got->tensors().begin(), got->tensors().end());
    const std::uint64_t alignment = got->parts()[0].alignment;
    auto header = gguf::detail::encode_header(got->meta(), alignment, tensors);
    must(header.has_value(), "what was read can be written");
    std::uint64_t size = header->size() + alignment;
    for (const auto& tensor : tensors) size += tensor.bytes + alignment;
    if (size > (std::size_t{16} << 20)) return true;
    header->resize(static_cast<std::size_t>(size));
    memory_source copy(std::as_bytes(std::span(header->data(), header->size())));
    auto again = gguf::file::read(copy, "copy");
    must(again.has_value(), "what was written can be read");
    must(again->meta() == got->meta(), "metadata comes back");
    must(again->tensors().size() == got->tensors().size(), "tensors come back");
    return true;
}

}  // namespace fuzz
