// What a model is going to be used for: the sizes that memory is planned by.
#pragma once

#include <cstdint>

#include "colibri/kv/kv_type.hpp"

namespace colibri {

/// What a session is asked to be; 0 means: chosen (see plan_memory and plan_session).
struct session_options {
    std::uint32_t context = 0;    ///< tokens per sequence; 0: the model's own, at most 8192, less where memory is short
    std::uint32_t sequences = 1;
    std::uint32_t batch = 2048;   ///< tokens handed over at once; nothing larger is evaluated in one go
    std::uint32_t ubatch = 0;     ///< tokens evaluated in one sweep over the weights; 0: 512, or what the budget allows when streaming
    std::uint32_t outputs = 0;    ///< tokens of one step whose logits can be asked for; 0: one per sequence
    unsigned threads = 0;         ///< for one token; 0: the (performance) cores that this process may use
    unsigned threads_batch = 0;   ///< for several; 0: as `threads` if that is given, else the cores of every kind
    kv_type cache_k = kv_type::f16;
    kv_type cache_v = kv_type::f16;
};

inline constexpr std::uint32_t default_context_limit = 8192;
inline constexpr std::uint32_t smallest_default_context = 512;
inline constexpr std::uint32_t default_ubatch = 512;

}  // namespace colibri
