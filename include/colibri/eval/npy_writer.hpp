// Matrices of floats as NumPy reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "colibri/io/atomic_writer.hpp"

namespace colibri::eval {

/// Writes a .npy file (version 1.0; little-endian float32, C order), row by row; it appears when it is complete. Source: NumPy's format
/// description.
class npy_writer {
public:
    /// Errors: those of atomic_writer (also: the disk is too full).
    [[nodiscard]] static result<npy_writer> create(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t columns) {
        std::string text = concat("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", columns, "), }");
        // Magic, length and text with its line end fill multiples of 64 bytes.
        constexpr std::size_t front = 10;
        text.append(63 - (front + text.size()) % 64, ' ');
        text += '\n';
        write_options options;
        options.expected_size = front + text.size() + rows * columns * sizeof(float);
        auto out = atomic_writer::create(path, options);
        if (!out) return std::move(out).error();
        npy_writer made(*std::move(out), options.expected_size);
        std::string head = std::string("\x93NUMPY\x01\0", 8);
        head += static_cast<char>(text.size() & 0xff);
        head += static_cast<char>(text.size() >> 8);
        if (auto ok = made.out_.write(head + text); !ok) return std::move(ok).error();
        return made;
    }

    /// The next values. Errors: io.
    [[nodiscard]] result<void> write(std::span<const float> values) { return out_.write(std::as_bytes(values)); }
    /// Errors: invalid_argument (values are missing), io.
    [[nodiscard]] result<void> finish() {
        if (out_.written() != size_) return error{errc::invalid_argument, concat(out_.written(), " of ", size_, " bytes were written")};
        return out_.commit();
    }

private:
    npy_writer(atomic_writer out, std::uint64_t size) : out_(std::move(out)), size_(size) {}

    atomic_writer out_;
    std::uint64_t size_;
};

}  // namespace colibri::eval
