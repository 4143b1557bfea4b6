// All that a program using Braid needs: <braid/braid.hpp> once installed. What this file includes,
// and what that includes, is installed; nothing else is (cmake/headers.cmake).
#pragma once

#include "frontend/builder.hpp"
#include "frontend/compile.hpp"
#include "frontend/npy.hpp"
#include "frontend/safetensors.hpp"
#include "frontend/selection.hpp"
#include "frontend/toml.hpp"
#include "frontend/weights.hpp"
#include "ir/interpret.hpp"
#include "ir/text.hpp"
#include "runtime/nvrtc.hpp"
