// What `colibri plan` says, as text and as JSON.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "colibri/model/plan_changes.hpp"
#include "repl/machine_figures.hpp"

namespace colibri::repl {

/// Everything that a plan is told from.
struct plan_facts {
    model source;
    memory_request request;
    std::optional<memory_plan> plan;  ///< nothing: it can't run
    std::uint64_t smallest = 0;       ///< budget that it takes; 0: not known
    std::string reason;               ///< why it can't run
    thread_counts threads;
    machine_figures machine;
    std::vector<changed_plan> changes;
    std::deque<weights::heat_line> heat;  ///< newest lines of a recording, or none

    [[nodiscard]] bool runs() const noexcept { return reason.empty(); }
};

/// Some 20 lines. Precondition: it runs.
[[nodiscard]] std::string plan_text(const plan_facts& facts);

/// One object, one line; documented in docs/cli.md.
[[nodiscard]] std::string plan_json(const plan_facts& facts);

}  // namespace colibri::repl
