// Unnormalised probabilities as integers, as sampling uses them.
#pragma once

#include "colibri/core/fixed_weight.hpp"

namespace colibri::sampling::detail {

using fixed_weight::distance;
using fixed_weight::far_away;
using fixed_weight::full_weight;
using fixed_weight::uint128;
using fixed_weight::weight;
using fixed_weight::weight_at;
using fixed_weight::weight_bits;

}  // namespace colibri::sampling::detail
