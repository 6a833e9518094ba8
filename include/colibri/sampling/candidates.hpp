// The tokens that may come next, as a range that steps narrow and change.
#pragma once

#include "colibri/sampling/candidate_list.hpp"
#include "colibri/sampling/candidates_passes.hpp"
