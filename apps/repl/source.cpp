#include "repl/source.hpp"

#include "colibri/simd/targets.hpp"

namespace colibri::repl {

result<void> choose_target(const options& given) {
    auto chosen = given.simd ? simd::force_target(*given.simd) : simd::force_target_from_environment();
    if (!chosen) return error{errc::invalid_argument, chosen.error().text()};
    return {};
}

result<model> open_source(const options& given) {
    model_options how;
    how.placement = given.mmap.value_or(true) ? weights::placement::mapped : weights::placement::loaded;
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
