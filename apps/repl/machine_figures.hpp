// What is known of this machine's speed: given, measured now, or kept from an earlier measurement.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/model/prediction.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

enum class figure_source { unknown, given, measured, kept };

/// Name for JSON.
[[nodiscard]] std::string_view name(figure_source source) noexcept;

/// Figures and where they are from.
struct machine_figures {
    machine_speed speed;
    figure_source memory = figure_source::unknown;  ///< of speed.one and speed.several
    figure_source disk = figure_source::unknown;
    std::string memory_date, disk_date;  ///< kept: of the measurement
    std::vector<std::string> notes;      ///< what couldn't be measured or kept, and why
};

/// Threads that a session with these options will use.
struct thread_counts {
    unsigned one = 1, several = 1, processors = 1;
};
[[nodiscard]] thread_counts threads_of(const options& given);

/// What was kept for the disk of `model`, and for this processor reading `bytes` with these threads.
[[nodiscard]] machine_figures kept_figures(const std::filesystem::path& model, std::uint64_t bytes,
                                           const thread_counts& threads);

/// Measures memory, arithmetic and the disk of `model`, in less than 5 s, and keeps the figures. What can't be measured
/// stays as it is, with a note.
void measure_figures(machine_figures& figures, const std::filesystem::path& model, std::uint64_t bytes,
                     const thread_counts& threads);

/// Puts --memory-bandwidth and --disk-bandwidth in place of what is known. Errors: invalid_argument (no size).
[[nodiscard]] result<void> use_given_figures(machine_figures& figures, const options& given);

}  // namespace colibri::repl
