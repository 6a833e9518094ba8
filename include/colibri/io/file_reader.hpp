// A file read at positions, through the page cache.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>

#include "colibri/io/byte_source.hpp"
#include "colibri/io/file_handle.hpp"

namespace colibri {

namespace detail {

/// Fills `out` from `offset` on with pread(2), in as many calls as it takes. Errors: truncated, io.
[[nodiscard]] inline result<void> pread_all(int descriptor, const std::filesystem::path& path, std::uint64_t offset,
                                            std::span<std::byte> out) {
    // One call moves at most 0x7ffff000 bytes on Linux; a multiple of any block size keeps direct reads aligned.
    constexpr std::size_t most = std::size_t{1} << 30;
    while (!out.empty()) {
        const ::ssize_t got = ::pread(descriptor, out.data(), std::min(out.size(), most), static_cast<::off_t>(offset));
        if (got < 0) {
            if (errno == EINTR) continue;
            auto e = system_error("read", path, errno);
            e.offset = offset;
            return e;
        }
        if (got == 0) {
            return error{errc::truncated, concat(quoted(path.string()), " became shorter while it was read"), offset};
        }
        out = out.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
    return {};
}

}  // namespace detail

/// A regular file as a byte_source; reads go through the page cache.
class file_reader final : public byte_source {
public:
    /// Errors: not_found, not_a_file, io.
    [[nodiscard]] static result<std::unique_ptr<file_reader>> open(const std::filesystem::path& path) {
        auto opened = open_for_reading(path);
        if (!opened) return std::move(opened).error();
        return std::unique_ptr<file_reader>(new file_reader(path, std::move(*opened)));
    }
    [[nodiscard]] std::uint64_t size() const noexcept override { return opened_.size; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    file_reader(std::filesystem::path path, opened_file opened) : path_(std::move(path)), opened_(std::move(opened)) {}

    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        return detail::pread_all(opened_.handle.get(), path_, offset, out);
    }

    std::filesystem::path path_;
    opened_file opened_;
};

}  // namespace colibri
