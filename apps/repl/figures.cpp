#include "repl/figures.hpp"

#include <cmath>

#include "colibri/core/concat.hpp"
#include "repl/format.hpp"

namespace colibri::repl {
namespace {

std::string rate_text(double rate) { return rate > 0.0 ? concat(", ", fixed(rate, 1), " tok/s") : std::string(); }

std::string predicted_text(const std::optional<double>& rate) {
    return rate ? concat(" (", fixed(*rate, 1), " predicted)") : std::string();
}

std::string read_text(const answer_figures& f) {
    if (!f.bytes_per_token) return {};
    return concat(bytes_text(static_cast<std::uint64_t>(*f.bytes_per_token)), " read per token");
}

// "97.1 %" of the experts asked for.
std::string hits_text(const answer_figures& f) {
    const auto asked = static_cast<double>(*f.expert_hits + *f.expert_misses);
    return concat(fixed(asked > 0.0 ? 100.0 * static_cast<double>(*f.expert_hits) / asked : 0.0, 1), " %");
}

// Lines about the disk, the predictions and the limit; only those of which something is known.
std::string prediction_text(const answer_figures& f) {
    std::string out;
    if (f.predicted_rate) {
        out += concat("predicted     ", fixed(*f.predicted_rate, 1), " tok/s");
        if (f.predicted_prompt_rate) out += concat(", prompt ", fixed(*f.predicted_prompt_rate, 1), " tok/s");
        out += concat("; ", bytes_text(static_cast<std::uint64_t>(f.predicted_bytes_per_token)), " read per token\n");
    } else {
        out += "predicted     unknown; colibri plan --probe measures what it takes\n";
    }
    if (f.limit_rate) out += concat("limit         ", fixed(*f.limit_rate, 1), " tok/s\n");
    if (f.bytes_per_token || f.wait_seconds) {
        const std::string read = read_text(f);
        out += concat("disk          ", read, read.empty() ? "" : ", ", "waited for ",
                      fixed(f.wait_seconds.value_or(0.0), 2), " s\n");
    }
    if (f.expert_hits && f.expert_misses) {
        out += concat("experts       ", hits_text(f), " found in memory (", *f.expert_hits, " of ",
                      *f.expert_hits + *f.expert_misses, ")\n");
    }
    return out;
}

}  // namespace

std::string weights_text(const memory_figures& memory) {
    if (memory.how != "streamed") return concat(bytes_text(memory.weights), " ", memory.how);
    const std::string experts = memory.cache != 0 ? concat(" (experts ", bytes_text(memory.cache), ")") : "";
    return concat(bytes_text(memory.weights), " held", experts, ", ", bytes_text(memory.swept), " read per token",
                  memory.cache != 0 ? " beside experts" : "", ", streamed");
}

std::string figures_line(const engine& e) {
    const auto& f = e.figures();
    const auto memory = e.memory();
    std::string disk;
    if (memory.how == "streamed") {
        disk = concat(" | disk ", f.bytes_per_token ? concat(read_text(f), ", ") : "",
                      fixed(f.wait_seconds.value_or(0.0), 2), " s waited");
        if (f.expert_hits && f.expert_misses) disk += concat(", ", hits_text(f), " of experts found");
    }
    return concat(counted(f.generated_tokens, "token"), rate_text(f.generation_rate),
                  f.generation_rate > 0.0 ? predicted_text(f.predicted_rate) : "", " | prompt ", f.prompt_tokens,
                  f.cached_tokens > 0 ? concat(" (", f.cached_tokens, " known)") : "", rate_text(f.prompt_rate),
                  " | TTFT ", fixed(f.first_token_seconds, 2), " s | context ", e.used(), " of ", e.context(), disk,
                  " | weights ", weights_text(memory), ", KV ", bytes_text(memory.kv), ", RSS ",
                  bytes_text(memory.resident));
}

std::string figures_text(const engine& e, bool answer) {
    const auto& f = e.figures();
    const auto memory = e.memory();
    std::string speed;
    if (answer) {
        speed = concat("answer        ", counted(f.generated_tokens, "token"), rate_text(f.generation_rate), ", ",
                       fixed(f.generation_seconds, 2), " s after the first\n", "prompt        ",
                       counted(f.prompt_tokens, "token"), ", ", f.cached_tokens, " known before", rate_text(f.prompt_rate),
                       ", ", fixed(f.prompt_seconds, 2), " s\n", "TTFT          ", fixed(f.first_token_seconds, 2),
                       " s to the first token\n", prediction_text(f), "context       ", e.used(), " of ", e.context(),
                       " tokens used\n");
    }
    return concat(speed, "weights       ", weights_text(memory), "\n",
                  memory.buffers != 0 ? concat("read buffers  ", bytes_text(memory.buffers), "\n") : "",
                  "KV cache      ", bytes_text(memory.kv), "\n", "activations   ", bytes_text(memory.scratch), "\n",
                  "RSS           ", bytes_text(memory.resident), ", at most ", bytes_text(memory.peak));
}

std::string reading_text(const progress& p, double seconds) {
    std::string out = concat("reading: ", p.done, " of ", p.total, " tokens");
    // A moment's speed tells little: the first pass also waits for the disk.
    if (seconds < 1.0 || p.done == 0 || p.done >= p.total) return out;
    const double left = std::ceil(seconds * static_cast<double>(p.total - p.done) / static_cast<double>(p.done));
    if (left < 120.0) return concat(out, ", ", fixed(left, 0), " s left");
    if (left < 7200.0) return concat(out, ", ", fixed(std::ceil(left / 60.0), 0), " min left");
    return concat(out, ", ", fixed(left / 3600.0, 1), " h left");
}

}  // namespace colibri::repl
