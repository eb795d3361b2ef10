// The shapes of handwritten digits as strokes, each a chain of quadratic Bézier arcs.
#pragma once

#include <span>

namespace trainer {

// x to the right, y down; a digit fills about [-1, 1] x [-1.4, 1.4].
struct Point {
  float x, y;
};

// Control points of a chain of arcs: points 2k, 2k+1, 2k+2 are start, control and end of arc k, so
// there is an odd number of them.
using Stroke = std::span<const Point>;

// The strokes of one way to write a digit.
using Glyph = std::span<const Stroke>;

// The ways to write `digit` (0 … 9); at least one.
std::span<const Glyph> GlyphsOf(int digit);

}  // namespace trainer
