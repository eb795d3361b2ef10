// The conversion of pixel bytes to the floats that a model sees.
#pragma once

#include <cstdint>
#include <span>

namespace trainer {

// out[i] = pixels[i] / 255, i.e. in [0, 1]; `out` holds pixels.size() floats. The same bits on
// every CPU, whichever instructions do it.
void ScalePixels(std::span<const uint8_t> pixels, float* out);

}  // namespace trainer
