// Rows of tables that are too large to hold: read when they are looked up, kept while there is room.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "colibri/io/read_queue.hpp"
#include "colibri/weights/stream_plan.hpp"

namespace colibri::weights {

/// A table in a file.
struct row_table {
    tensor_id tensor = 0;
    std::uint32_t part = 0;
    std::uint64_t offset = 0;
    std::size_t row_bytes = 0;
};

/// A direct-mapped cache of rows. One thread.
class row_cache {
public:
    /// Places are those of the plan, in `memory`. Precondition: `queue` outlives the cache.
    row_cache(read_queue& queue, const stream_plan& plan, std::byte* memory)
        : queue_(queue), rows_(memory + plan.row_offset), staging_(memory + plan.staging_offset), row_bytes_(plan.row_bytes),
          room_(plan.staging_room), held_(plan.row_capacity, nothing) {}

    ~row_cache() { queue_.drain(); }
    row_cache(const row_cache&) = delete;
    row_cache& operator=(const row_cache&) = delete;

    /// Reads those of `rows`, ascending, that aren't here; several at once. Two that want the same place: the later one stays.
    /// Errors: those of reading, canceled.
    [[nodiscard]] result<void> fetch(const row_table& table, std::span<const std::uint32_t> rows, const cancel_flag* cancel) {
        while (!rows.empty()) {
            std::size_t n = 0;
            std::size_t used = 0;
            for (; used < rows.size() && n < jobs_.size(); ++used) {
                if (has(table, rows[used])) continue;
                if (auto ok = begin(table, rows[used], n, cancel); !ok) return ok;
                ++n;
            }
            result<void> first;
            for (std::size_t i = 0; i < n; ++i) {
                auto done = queue_.wait(jobs_[i], cancel);
                if (done) keep(table, asked_[i], jobs_[i]);
                else if (first) first = std::move(done);
            }
            if (!first) return first;
            rows = rows.subspan(used);
        }
        return {};
    }

    /// The bytes of a row, valid until the next call. Errors: those of reading, canceled.
    [[nodiscard]] result<std::span<const std::byte>> row(const row_table& table, std::uint32_t row, const cancel_flag* cancel) {
        if (!has(table, row)) {
            if (auto ok = fetch(table, {&row, 1}, cancel); !ok) return std::move(ok).error();
        }
        return std::span<const std::byte>(place(row), table.row_bytes);
    }

private:
    using name_type = std::uint64_t;  // tensor and row
    static constexpr name_type nothing = std::numeric_limits<name_type>::max();

    [[nodiscard]] static name_type name(const row_table& table, std::uint32_t row) noexcept {
        return name_type{table.tensor} << 32 | row;
    }
    [[nodiscard]] std::byte* place(std::uint32_t row) const noexcept { return rows_ + row % held_.size() * row_bytes_; }
    [[nodiscard]] bool has(const row_table& table, std::uint32_t row) const noexcept {
        return held_[row % held_.size()] == name(table, row);
    }

    [[nodiscard]] result<void> begin(const row_table& table, std::uint32_t row, std::size_t i, const cancel_flag* cancel) {
        auto& job = jobs_[i];
        // A read that was given up may still be under way.
        if (begun_[i] && !job.finished()) {
            if (auto ok = queue_.wait(job, cancel); !job.finished()) return ok;
        }
        begun_[i] = true;
        asked_[i] = row;
        job.file = table.part;
        job.offset = table.offset + std::uint64_t{row} * table.row_bytes;
        job.bytes = table.row_bytes;
        job.memory = staging_ + i * room_;
        job.urgent = true;  // before what is read ahead
        queue_.submit(job);
        return {};
    }

    void keep(const row_table& table, std::uint32_t row, const read_job& job) noexcept {
        std::memcpy(place(row), job.data().data(), job.bytes);
        held_[row % held_.size()] = name(table, row);
    }

    read_queue& queue_;
    std::byte* rows_;
    std::byte* staging_;
    std::size_t row_bytes_;
    std::size_t room_;
    std::vector<name_type> held_;
    std::array<read_job, stream_plan::row_reads> jobs_;
    std::array<std::uint32_t, stream_plan::row_reads> asked_{};
    std::array<bool, stream_plan::row_reads> begun_{};
};

}  // namespace colibri::weights
