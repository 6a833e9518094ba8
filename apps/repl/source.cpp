#include "repl/source.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/io/byte_size.hpp"
#include "colibri/io/output_check.hpp"
#include "colibri/simd/targets.hpp"
#include "repl/files.hpp"

namespace colibri::repl {

namespace {

// What --weights, --mmap and --no-mmap together ask for.
result<weights::holding> holding_of(const options& given) {
    auto wanted = given.weights.value_or("auto");
    if (given.mmap) {
        const std::string_view same = *given.mmap ? "mapped" : "resident";
        if (given.weights && *given.weights != same) {
            return error{errc::invalid_argument, concat(*given.mmap ? "--mmap" : "--no-mmap", " means --weights ", same,
                                                        ", so --weights ", *given.weights, " contradicts it; give one of them")};
        }
        wanted = same;
    }
    for (const auto how : {weights::holding::mapped, weights::holding::resident, weights::holding::streamed}) {
        if (wanted == weights::name(how)) return how;
    }
    return weights::holding::automatic;
}

// Writes a line for each layer of a mixture and each step: "step layer expert,expert,...".
expert_watch heat_recorder(const std::string& path, const std::shared_ptr<std::ofstream>& file) {
    return expert_watch([file, path, step = std::uint64_t{0}, last = std::uint32_t{0}](
                            std::uint32_t layer, std::span<const std::uint32_t> experts) mutable {
        if (!*file) return;
        if (layer <= last) ++step;  // the first layer again
        last = layer;
        std::string line = concat(step, " ", layer, " ");
        for (std::size_t i = 0; i < experts.size(); ++i) line += concat(i == 0 ? "" : ",", experts[i]);
        *file << line << "\n" << std::flush;
        if (!*file) {
            std::cerr << concat("colibri: --record-heat: writing to ", quoted(path), " failed: ", std::strerror(errno),
                                "; what follows isn't recorded\n");
        }
    });
}

// Only now, as nothing is to be written for a model that can't be used; and never over the model.
result<void> open_heat_file(const model& m, const options& given, std::ofstream& out) {
    const std::string& path = *given.record_heat;
    const auto refuse = [&](std::string_view why) { return error{errc::invalid_argument, concat("--record-heat ", quoted(path), ": ", why)}; };
    if (m.params().experts == 0) return refuse("this model has no experts, so there is nothing to record");
    const auto target = expand_home(path);
    for (const auto& part : m.file().parts()) {
        std::error_code none;
        if (std::filesystem::equivalent(part.path, target, none)) return refuse("that is the model itself");
    }
    for (const auto& [other, what] : {std::pair(given.prompt_file, "text"), {given.output_file, "output"}, {given.save_base, "base"}}) {
        if (other && is_same_file(expand_home(*other), target)) return refuse(concat("that is the ", what, " itself"));
    }
    out.open(target, std::ios::trunc);
    if (!out) return refuse(concat("can't be written: ", std::strerror(errno)));
    return {};
}

}  // namespace

result<void> choose_target(const options& given) {
    auto chosen = given.simd ? simd::force_target(*given.simd) : simd::force_target_from_environment();
    if (!chosen) return error{errc::invalid_argument, chosen.error().text()};
    return {};
}

session_options sizes_of(const options& given) {
    session_options out;
    set_sizes(out, given);
    return out;
}

result<model_options> holding_options(const options& given, const session_options& use) {
    model_options how;
    const auto holding = holding_of(given);
    if (!holding) return holding.error();
    how.holding = *holding;
    how.use = use;
    how.lock = given.mlock.value_or(false);
    if (given.memory && *given.memory != "auto") {
        auto size = parse_byte_size(*given.memory);
        if (!size) return error{errc::invalid_argument, concat("--memory: ", size.error().message, ", or auto")};
        if (*size == 0) return error{errc::invalid_argument, "--memory: nothing runs in 0 bytes; leave it out or say auto"};
        how.memory = *size;
    }
    return how;
}

result<model> open_source(const options& given, const session_options& use, progress_fn loading) {
    auto how = holding_options(given, use);
    if (!how) return std::move(how).error();
    how->loading.progress = std::move(loading);
    const auto heat = std::make_shared<std::ofstream>();
    if (given.record_heat) how->on_experts = heat_recorder(*given.record_heat, heat);
    auto source = model::open(given.model.value_or(""), *how);
    if (!source) {
        auto problem = std::move(source).error();
        if (problem.code == errc::invalid_argument) problem.code = errc::bad_value;  // not the caller's: the file's
        return problem;
    }
    if (given.record_heat) {
        if (auto ok = open_heat_file(*source, given, *heat); !ok) return std::move(ok).error();
    }
    return source;
}

}  // namespace colibri::repl
