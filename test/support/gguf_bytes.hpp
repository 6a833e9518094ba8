// GGUF files put together byte by byte, so that tests can make any field wrong. Independent of the library's writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace gguf_bytes {

/// Little-endian bytes of a number.
template <class T>
std::string le(T number) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &number, sizeof(T));
    return out;
}

/// A text with its length in front.
inline std::string text(std::string_view of) { return le(static_cast<std::uint64_t>(of.size())) + std::string(of); }

/// A key with a value: `type` is the value's type number, `payload` its bytes.
inline std::string key(std::string_view name, std::uint32_t type, std::string_view payload) {
    return text(name) + le(type) + std::string(payload);
}
inline std::string key_u32(std::string_view name, std::uint32_t number) { return key(name, 4, le(number)); }
inline std::string key_text(std::string_view name, std::string_view value) { return key(name, 8, text(value)); }

/// An entry of the tensor list.
inline std::string tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                          std::uint64_t offset) {
    std::string out = text(name) + le(static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) out += le(dim);
    return out + le(type) + le(offset);
}

/// A whole file: keys and tensors as above, then data behind padding.
inline std::string file(const std::vector<std::string>& keys, const std::vector<std::string>& tensors,
                        std::string_view data, std::size_t alignment = 32, std::uint32_t version = 3) {
    std::string out = "GGUF" + le(version) + le(static_cast<std::uint64_t>(tensors.size())) +
                      le(static_cast<std::uint64_t>(keys.size()));
    for (const auto& key : keys) out += key;
    for (const auto& tensor : tensors) out += tensor;
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out.append(data);
}

}  // namespace gguf_bytes
