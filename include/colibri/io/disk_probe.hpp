// How fast a disk brings a model's bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <utility>

#include "colibri/core/cancel.hpp"
#include "colibri/io/read_queue.hpp"

namespace colibri {

/// What a disk does when a model is streamed from it.
struct disk_speed {
    double bytes_per_second = 0.0;
    std::uint64_t bytes = 0;  ///< read to find out
    bool direct = false;      ///< past the page cache; else what was cached counts as fast as memory
    const char* backend = ""; ///< read_queue::name()
};

struct disk_probe_options {
    double seconds = 1.0;                         ///< about; one stretch of reads more at most
    std::size_t jobs = 8;                         ///< reads in flight, as in streaming
    std::size_t job_bytes = std::size_t{4} << 20; ///< a multiple of 4096; memory for `jobs` of these is taken
    read_queue_options reads = {};
    const cancel_flag* cancel = nullptr;
};

/// Reads parts of the file that lie apart, as streaming would, until the time is up, and leaves the page cache as it is. A disk that has
/// just been busy, or is shared, may be faster or slower later. Errors: those of read_queue::open and wait; bad_value (the file is too
/// small to tell: below 16 MiB).
[[nodiscard]] inline result<disk_speed> measure_disk(const std::filesystem::path& path, const disk_probe_options& options = {}) {
    constexpr std::uint64_t stretch = std::uint64_t{64} << 20;
    auto queue = read_queue::open({path}, options.reads);
    if (!queue) return std::move(queue).error();
    const std::uint64_t size = (*queue)->size(0) / read_job::alignment * read_job::alignment;
    if (size < (std::uint64_t{16} << 20)) {
        return error{errc::bad_value, concat(quoted(path.string()), " is too small to measure a disk by; name a file of 16 MiB or more")};
    }
    auto reader = detail::stretch_reader::create(std::max<std::size_t>(1, options.jobs),
                                                 round_up(std::max(options.job_bytes, read_job::alignment), read_job::alignment));
    if (!reader) return std::move(reader).error();
    disk_speed out;
    double seconds = 0.0;
    // Stretches in an order that covers the file evenly whenever it ends, each once before any twice: multiples of about the golden
    // ratio, modulo the file.
    const std::uint64_t places = (size + stretch - 1) / stretch;
    auto step = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(places) * 0.6180339887));
    while (std::gcd(step, places) != 1) ++step;
    for (std::uint64_t i = 0; i == 0 || seconds < options.seconds; ++i) {
        const std::uint64_t begin = i * step % places * stretch;
        const std::uint64_t bytes = std::min(stretch, size - begin);
        const auto took = reader->read(**queue, 0, begin, bytes, options.cancel);
        if (!took) return took.error();
        seconds += *took;
        out.bytes += bytes;
    }
    out.bytes_per_second = static_cast<double>(out.bytes) / seconds;
    out.direct = (*queue)->is_direct();
    out.backend = (*queue)->name();
    return out;
}

}  // namespace colibri
