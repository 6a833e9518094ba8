// Steps one behind the other: composed by `|` while compiling, or as a list at run time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "colibri/sampling/candidates.hpp"
#include "colibri/sampling/dry.hpp"
#include "colibri/sampling/penalties.hpp"
#include "colibri/sampling/selection.hpp"
#include "colibri/sampling/temperature.hpp"
#include "colibri/sampling/truncation.hpp"

namespace colibri::sampling {

/// Anything that changes, removes or chooses candidates: a call with them that returns nothing. A step that needs to
/// know the text also has `accept(token_id)`; one with a state has `reset()`, which brings it back to the start.
template <class T>
concept step = requires(std::remove_reference_t<T>& s, candidates& c) {
    { s(c) } -> std::same_as<void>;
};

/// Tells a step that the text goes on with `token`, if it wants to know.
template <step Step>
void accept(Step& s, token_id token) {
    if constexpr (requires { s.accept(token); }) s.accept(token);
}

/// Brings a step back to the start, if it has a state.
template <step Step>
void reset(Step& s) {
    if constexpr (requires { s.reset(); }) s.reset();
}

/// Lets a step that draws start over with another seed.
template <step Step>
void reseed(Step& s, std::uint64_t seed) {
    if constexpr (requires { s.reseed(seed); }) s.reseed(seed);
}

/// Lets a step that knows the text forget it; generators go on.
template <step Step>
void forget_text(Step& s) {
    if constexpr (requires { s.forget_text(); }) s.forget_text();
    else if constexpr (requires(token_id token) { s.accept(token); }) reset(s);
}

/// Steps known at compile time, itself a step. Made by `|`: `auto chain = top_k{40} | top_p{0.95f} | draw{seed};`
template <step... Steps>
class chain {
public:
    explicit constexpr chain(std::tuple<Steps...> steps) : steps_(std::move(steps)) {}

    void operator()(candidates& c) {
        std::apply([&](auto&... s) { (s(c), ...); }, steps_);
    }
    void accept(token_id token) {
        std::apply([&](auto&... s) { (sampling::accept(s, token), ...); }, steps_);
    }
    void reset() {
        std::apply([](auto&... s) { (sampling::reset(s), ...); }, steps_);
    }
    void reseed(std::uint64_t seed) {
        std::apply([&](auto&... s) { (sampling::reseed(s, seed), ...); }, steps_);
    }
    void forget_text() {
        std::apply([](auto&... s) { (sampling::forget_text(s), ...); }, steps_);
    }
    [[nodiscard]] constexpr std::tuple<Steps...>&& release() && { return std::move(steps_); }

private:
    std::tuple<Steps...> steps_;
};

namespace detail {

template <step... Steps>
constexpr std::tuple<Steps...> steps_of(chain<Steps...> c) {
    return std::move(c).release();
}
template <step Step>
constexpr std::tuple<Step> steps_of(Step s) {
    return std::tuple<Step>(std::move(s));
}

template <step... Steps>
constexpr chain<Steps...> chain_of(std::tuple<Steps...> steps) {
    return chain<Steps...>(std::move(steps));
}

}  // namespace detail

/// The first step, then the second.
template <class First, class Second>
requires step<First> && step<Second> &&(!std::same_as<std::remove_cvref_t<First>, candidates>)constexpr auto operator|(
    First&& first, Second&& second) {
    return detail::chain_of(
        std::tuple_cat(detail::steps_of<>(std::remove_cvref_t<First>(std::forward<First>(first))),
                       detail::steps_of<>(std::remove_cvref_t<Second>(std::forward<Second>(second)))));
}

/// Runs a step, or a chain of them, on candidates: `candidates | top_k{40} | temperature{0.7f}`.
template <step Step>
candidates& operator|(candidates& c, Step&& s) {
    s(c);
    return c;
}

/// One of our own steps, which one is known at run time.
using any_step = std::variant<logit_bias, penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature,
                              dynamic_temperature, greedy, draw, mirostat, mirostat_v2>;

/// Steps known at run time, in order; itself a step.
class step_list {
public:
    step_list() = default;

    void add(any_step s) { steps_.push_back(std::move(s)); }
    [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
    [[nodiscard]] const any_step& operator[](std::size_t index) const { return steps_[index]; }

    void operator()(candidates& c) {
        for (auto& one : steps_) std::visit([&](auto& s) { s(c); }, one);
    }
    void accept(token_id token) {
        for (auto& one : steps_) std::visit([&](auto& s) { sampling::accept(s, token); }, one);
    }
    void reset() {
        for (auto& one : steps_) std::visit([](auto& s) { sampling::reset(s); }, one);
    }
    void reseed(std::uint64_t seed) {
        for (auto& one : steps_) std::visit([&](auto& s) { sampling::reseed(s, seed); }, one);
    }
    void forget_text() {
        for (auto& one : steps_) std::visit([](auto& s) { sampling::forget_text(s); }, one);
    }

private:
    std::vector<any_step> steps_;
};

}  // namespace colibri::sampling
