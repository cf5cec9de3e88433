// Decode steps brought to one of few shapes, so that a device can record and replay them.
#pragma once

#include <cstdint>

#include "model/model.h"

namespace hs {

// Whether each sequence has one token, without pictures, and wants the next one.
bool is_plain_decode(const LanguageStep& step);

// `step` with dead sequences behind its own, `rows` in all, and block tables of `stride` columns.
// Dead rows compute with token 0, store nothing (slot -1) and see nothing (context 0). Vectors of
// `padded` keep their memory; sampling is left out. REQUIRES: is_plain_decode(step), and that it
// fits.
void pad_decode(const LanguageStep& step, int64_t rows, int32_t stride, LanguageStep& padded);

}  // namespace hs
