// The template language's values, and how C++ makes and reads them.
#pragma once

#include "colibri/chat/jinja/object.hpp"
#include "colibri/chat/jinja/value_core.hpp"
#include "colibri/chat/jinja/value_data.hpp"
