#include "repl/bench_plan.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "colibri/core/concat.hpp"
#include "repl/lists.hpp"

namespace colibri::repl {
namespace {

// The list of an option, which was checked when it was given; repeated values count once.
std::vector<std::uint32_t> list(const std::optional<std::string>& given, std::uint32_t otherwise) {
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> out;
    if (given) {
        const auto numbers = numbers_of(*given, 0, most, true);
        for (const auto number : numbers.value()) {
            const auto value = static_cast<std::uint32_t>(number);
            if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
        }
    }
    if (out.empty()) out.push_back(otherwise);
    return out;
}

std::vector<kv_type> types(const std::optional<std::string>& given) {
    std::vector<kv_type> out;
    if (given) {
        std::string names;
        for (const auto type : kv_types) names += concat(names.empty() ? "" : " ", name(type));
        const auto words = words_of(*given, names);
        for (const auto& word : words.value()) {
            const auto type = parse_kv_type(word).value_or(kv_type::f16);
            if (std::find(out.begin(), out.end(), type) == out.end()) out.push_back(type);
        }
    }
    if (out.empty()) out.push_back(kv_type::f16);
    return out;
}

// (prompt, generate): prompts alone, decoding alone, then the pairs.
result<std::vector<std::pair<std::uint32_t, std::uint32_t>>> kinds(const options& given) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
    for (const auto p : list(given.prompt_tokens, 512)) {
        if (p != 0) out.emplace_back(p, 0);
    }
    for (const auto n : list(given.gen_tokens, 128)) {
        if (n != 0) out.emplace_back(0, n);
    }
    for (const auto& text : given.prompt_gen) out.push_back(pair_of(text).value());
    if (out.empty()) return error{errc::invalid_argument, "nothing is left to measure: give -p, -n or -pg a number above 0"};
    return out;
}

}  // namespace

result<bench_plan> plan_bench(const options& given) {
    auto wanted = kinds(given);
    if (!wanted) return std::move(wanted).error();
    bench_plan out;
    out.repeat = static_cast<unsigned>(given.repeat.value_or(5));
    out.warm_up = !given.no_warmup;
    bench_group group;
    std::uint64_t context = 1;
    for (const auto depth : list(given.depth, 0)) {
        for (const auto& [prompt, generate] : *wanted) {
            group.cases.push_back({prompt, generate, depth});
            context = std::max(context, group.cases.back().context());
        }
    }
    if (context > std::numeric_limits<std::uint32_t>::max() / 2) {
        return error{errc::invalid_argument, concat("a context of ", context, " tokens is too long to be measured; give -p, -n or -d less")};
    }
    auto& s = group.session;
    s.context = static_cast<std::uint32_t>(context);
    if (given.batch) s.batch = static_cast<std::uint32_t>(*given.batch);
    for (const auto sequences : list(given.sequences, 1)) {
        for (const auto key_type : types(given.cache_k_list)) {
            for (const auto value_type : types(given.cache_v_list)) {
                for (const auto ubatch : list(given.ubatch_list, s.ubatch)) {
                    for (const auto threads_batch : list(given.thread_batch_list, 0)) {
                        for (const auto threads : list(given.thread_list, 0)) {
                            s.sequences = sequences;
                            s.cache_k = key_type;
                            s.cache_v = value_type;
                            s.ubatch = ubatch;
                            s.threads_batch = threads_batch;
                            s.threads = threads;
                            out.groups.push_back(group);
                            // 0: chosen when the model is opened.
                            if (ubatch != 0) out.groups.back().session.ubatch = std::max(ubatch, std::min(sequences, s.batch));
                        }
                    }
                }
            }
        }
    }
    return out;
}

}  // namespace colibri::repl
