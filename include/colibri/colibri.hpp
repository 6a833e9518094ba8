// All of Colibri's public headers, layer by layer.
#pragma once

#include "colibri/core/buffer.hpp"
#include "colibri/core/cancel.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/half.hpp"
#include "colibri/core/number.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/tensor_type.hpp"
#include "colibri/version.hpp"
