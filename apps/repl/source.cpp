#include "repl/source.hpp"

#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/simd/targets.hpp"

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
    return wanted == "mapped"     ? weights::holding::mapped
           : wanted == "resident" ? weights::holding::resident
                                  : weights::holding::automatic;
}


}  // namespace

result<void> choose_target(const options& given) {
    auto chosen = given.simd ? simd::force_target(*given.simd) : simd::force_target_from_environment();
    if (!chosen) return error{errc::invalid_argument, chosen.error().text()};
    return {};
}

result<model> open_source(const options& given, progress_fn loading) {
    model_options how;
    const auto holding = holding_of(given);
    if (!holding) return holding.error();
    how.holding = *holding;
    set_sizes(how.use, given);
    how.loading.progress = std::move(loading);
    how.lock = given.mlock.value_or(false);
    auto source = model::open(given.model.value_or(""), how);
    if (!source) {
        auto problem = std::move(source).error();
        if (problem.code == errc::invalid_argument) problem.code = errc::bad_value;  // not the caller's: the file's
        return problem;
    }
    return source;
}

}  // namespace colibri::repl
