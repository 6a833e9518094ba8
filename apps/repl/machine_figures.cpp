#include "repl/machine_figures.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "colibri/core/concat.hpp"
#include "colibri/core/number.hpp"
#include "colibri/io/byte_size.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/io/cpu_name.hpp"
#include "colibri/io/disk_identity.hpp"
#include "colibri/io/disk_probe.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/simd/machine.hpp"

namespace colibri::repl {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
// Beyond any cache; reading more tells nothing new and takes longer.
constexpr std::uint64_t most_probed = 512 * mib;

// Memory of a model's size is measured: small ones live in the processor's caches. Sizes are powers of 2, so that like
// models share a measurement.
std::uint64_t probed_bytes(std::uint64_t bytes) { return std::bit_ceil(std::clamp(bytes, mib, most_probed)); }

// Where figures of processors are kept: beside those of disks.
std::optional<std::filesystem::path> processors_path() {
    auto disks = disk_speeds_path();
    if (!disks) return std::nullopt;
    return disks->parent_path() / "processors";
}

// A line "THREADS TARGET BYTES BANDWIDTH INTEGER_PEAK FLOAT_PEAK DATE PROCESSOR'S NAME".
struct kept_line {
    std::uint64_t bytes = 0;
    machine_limits limits;
    std::string date;
};

std::string key_of(unsigned threads) { return concat(threads, " ", simd::target_name(), " "); }

std::optional<kept_line> parse_line(std::string_view line, std::string_view key, std::string_view cpu) {
    if (!line.starts_with(key)) return std::nullopt;
    line.remove_prefix(key.size());
    const auto word = [&] {
        const auto end = std::min(line.find(' '), line.size());
        const auto out = line.substr(0, end);
        line.remove_prefix(std::min(end + 1, line.size()));
        return out;
    };
    std::uint64_t numbers[4] = {};
    for (auto& number : numbers) {
        const auto parsed = parse_number<std::uint64_t>(word());
        if (!parsed || *parsed == 0) return std::nullopt;
        number = *parsed;
    }
    const auto date = word();
    if (date.size() != 10 || date.find_first_not_of("0123456789-") != std::string_view::npos || line != cpu)
        return std::nullopt;
    return kept_line{
        numbers[0],
        {static_cast<double>(numbers[1]), static_cast<double>(numbers[2]), static_cast<double>(numbers[3])},
        std::string(date)};
}

// The newest line for as many threads and at least as many bytes.
std::optional<kept_line> find_line(unsigned threads, std::uint64_t bytes) {
    const auto path = processors_path();
    const auto text = path ? colibri::detail::read_system_text(*path) : std::nullopt;
    if (!text) return std::nullopt;
    const std::string cpu = cpu_name();
    std::optional<kept_line> found;
    for (const auto line : colibri::detail::pieces_of(*text, '\n')) {
        auto parsed = parse_line(line, key_of(threads), cpu);
        if (!parsed || parsed->bytes < bytes) continue;
        if (!found || parsed->bytes <= found->bytes) found = std::move(parsed);
    }
    return found;
}

result<void> keep_line(unsigned threads, std::uint64_t bytes, const machine_limits& limits) {
    const auto path = processors_path();
    if (!path) return error{errc::not_found, "no home folder to keep figures in"};
    const std::string same = concat(key_of(threads), bytes, " ");
    const auto whole = [](double number) { return static_cast<std::uint64_t>(number); };
    return replace_line(*path, [&](std::string_view line) { return !line.starts_with(same); },
                        concat(same, whole(limits.bandwidth), " ", whole(limits.integer_peak), " ", whole(limits.float_peak), " ",
                               colibri::detail::today(), " ", cpu_name()));
}

result<machine_limits> measure_limits(unsigned threads, unsigned processors, std::uint64_t bytes) {
    // What isn't free would have to be swapped or dropped for a measurement.
    const std::uint64_t room = std::max(mib, std::bit_floor(read_memory_limits().free() / 4));
    thread_pool pool(threads, processors);
    machine_limits out;
    // The best of two: what else runs on the machine only makes it look slower.
    for (int i = 0; i < 2; ++i) {
        const auto bandwidth = simd::read_bandwidth(static_cast<std::size_t>(std::min(bytes, room)), pool, 3);
        if (!bandwidth) return bandwidth.error();
        out.bandwidth = std::max(out.bandwidth, *bandwidth);
        out.integer_peak = std::max(out.integer_peak, simd::integer_peak(pool, 3));
        out.float_peak = std::max(out.float_peak, simd::float_peak(pool, 3));
    }
    return out;
}

void measure_the_disk(machine_figures& figures, const std::filesystem::path& model) {
    const auto speed = measure_disk(model);
    if (!speed) {
        figures.notes.push_back(concat("the disk's speed is not measured: ", speed.error().message));
        return;
    }
    figures.speed.disk = speed->bytes_per_second;
    figures.disk = figure_source::measured;
    if (!speed->direct) {
        figures.notes.emplace_back(
            "this file system has no direct reads: what the page cache holds looks faster than the disk is");
        return;  // nothing to keep
    }
    const auto disk = identify_disk(model);
    const auto store = disk_speeds_path();
    if (!disk || !store) return;
    if (auto ok = keep_disk_speed(*store, *disk, figures.speed.disk); !ok) {
        figures.notes.push_back(concat("the disk's speed is not kept: ", ok.error().message));
    }
}

result<double> bandwidth_of(std::string_view option, std::string_view text) {
    auto rate = parse_byte_rate(text);
    if (!rate) return error{errc::invalid_argument, concat(option, ": ", rate.error().message)};
    return rate;
}

}  // namespace

std::string_view name(figure_source source) noexcept {
    switch (source) {
        case figure_source::given: return "given";
        case figure_source::measured: return "measured";
        case figure_source::kept: return "kept";
        case figure_source::unknown: break;
    }
    return "unknown";
}

thread_counts threads_of(const options& given) {
    const auto cpus = read_cpu_limits();
    thread_counts out;
    const auto asked = static_cast<unsigned>(given.threads.value_or(0));
    const auto asked_batch = static_cast<unsigned>(given.threads_batch.value_or(0));
    out.one = asked != 0 ? asked : cpus.threads();
    out.several = asked_batch != 0 ? asked_batch : asked != 0 ? asked : cpus.batch_threads();
    out.processors = cpus.most_threads();
    return out;
}

machine_figures kept_figures(const std::filesystem::path& model, std::uint64_t bytes, const thread_counts& threads) {
    machine_figures out;
    const auto store = disk_speeds_path();
    if (const auto disk = identify_disk(model); disk && store) {
        if (auto speed = find_disk_speed(*store, *disk)) {
            out.speed.disk = speed->bytes_per_second;
            out.disk = figure_source::kept;
            out.disk_date = std::move(speed->date);
        }
    }
    const auto one = find_line(threads.one, probed_bytes(bytes));
    const auto several = threads.several == threads.one ? one : find_line(threads.several, probed_bytes(bytes));
    if (one) {
        out.speed.one = one->limits;
        out.memory = figure_source::kept;
        out.memory_date = one->date;
    }
    if (several) out.speed.several = several->limits;
    return out;
}

void measure_figures(machine_figures& figures, const std::filesystem::path& model, std::uint64_t bytes,
                     const thread_counts& threads) {
    const std::uint64_t size = probed_bytes(bytes);
    const auto measure = [&](unsigned count, machine_limits& target) {
        const auto limits = measure_limits(count, threads.processors, size);
        if (!limits) {
            figures.notes.push_back(concat("memory's speed is not measured: ", limits.error().message));
            return;
        }
        target = *limits;
        figures.memory = figure_source::measured;
        if (auto ok = keep_line(count, size, target); !ok) {
            figures.notes.push_back(concat("memory's speed is not kept: ", ok.error().message));
        }
    };
    measure(threads.one, figures.speed.one);
    if (threads.several == threads.one) figures.speed.several = figures.speed.one;
    else measure(threads.several, figures.speed.several);
    measure_the_disk(figures, model);
}

result<void> use_given_figures(machine_figures& figures, const options& given) {
    if (given.memory_bandwidth) {
        const auto speed = bandwidth_of("--memory-bandwidth", *given.memory_bandwidth);
        if (!speed) return speed.error();
        figures.speed.one.bandwidth = figures.speed.several.bandwidth = *speed;
        figures.memory = figure_source::given;
    }
    if (given.disk_bandwidth) {
        const auto speed = bandwidth_of("--disk-bandwidth", *given.disk_bandwidth);
        if (!speed) return speed.error();
        figures.speed.disk = *speed;
        figures.disk = figure_source::given;
    }
    return {};
}

}  // namespace colibri::repl
