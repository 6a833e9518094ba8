// Which bytes of a file are in the page cache.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "colibri/io/mapped_file.hpp"

namespace colibri {

/// Bytes [begin, end) of a file, in the page cache or not.
struct cache_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool cached = false;
};

/// What of a file was in the page cache at one moment. Where the system doesn't tell (the file is another user's and this one
/// may not write to it) all counts as cached. Immutable, so threads may share it.
class page_cache_state {
public:
    page_cache_state() = default;

    /// Looks at the whole file, without reading any of it.
    [[nodiscard]] static page_cache_state of(const mapped_file& file) {
        page_cache_state out;
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        constexpr std::size_t step = std::size_t{256} << 20;
        std::vector<unsigned char> pages;
        for (std::size_t at = 0; at < file.size(); at += step) {
            const std::size_t size = std::min(step, file.size() - at);
            pages.assign((size + page - 1) / page, 1);  // what mincore doesn't fill in counts as cached
            (void)::mincore(const_cast<std::byte*>(file.bytes().data()) + at, size, pages.data());
            for (std::size_t i = 0; i < pages.size(); ++i) {
                const bool cached = (pages[i] & 1u) != 0;
                const std::size_t end = std::min(file.size(), at + (i + 1) * page);
                if (!out.ranges_.empty() && out.ranges_.back().cached == cached) out.ranges_.back().end = end;
                else out.ranges_.push_back({at + i * page, end, cached});
            }
        }
        return out;
    }

    /// All of the file, in order; borders lie between pages.
    [[nodiscard]] const std::vector<cache_range>& ranges() const noexcept { return ranges_; }

    /// [begin, end) of the file, split. A cached part shorter than `least` counts as not cached, unless it is all.
    void split(std::uint64_t begin, std::uint64_t end, std::uint64_t least, std::vector<cache_range>& out) const {
        out.clear();
        if (begin >= end) return;
        auto at = std::upper_bound(ranges_.begin(), ranges_.end(), begin,
                                   [](std::uint64_t offset, const cache_range& range) { return offset < range.end; });
        for (; at != ranges_.end() && at->begin < end; ++at) {
            const std::uint64_t from = std::max(begin, at->begin);
            const std::uint64_t to = std::min(end, at->end);
            const bool cached = at->cached && (to - from >= least || (from == begin && to == end));
            if (!out.empty() && out.back().cached == cached) out.back().end = to;
            else out.push_back({from, to, cached});
        }
    }

    /// Drops the pages of `path` that were not cached then. Pages in use elsewhere stay; what can't be done isn't.
    void drop_others(const std::filesystem::path& path) const {
#if defined(POSIX_FADV_DONTNEED)
        const auto opened = open_for_reading(path);
        if (!opened) return;
        for (const auto& range : ranges_) {
            if (range.cached) continue;
            ::posix_fadvise(opened->handle.get(), static_cast<::off_t>(range.begin),
                            static_cast<::off_t>(range.end - range.begin), POSIX_FADV_DONTNEED);
        }
#endif
    }

private:
    std::vector<cache_range> ranges_;
};

}  // namespace colibri
