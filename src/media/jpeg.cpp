// JPEG (ITU-T T.81) through libjpeg-turbo. The markers are walked here first: for the EXIF
// orientation, and so that size, variant and completeness are known before the library allocates
// anything.
#include <turbojpeg.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "media/decode.h"
#include "media/orientation.h"

namespace hs {
namespace {

constexpr std::string_view kDamaged = "The JPEG image is damaged or truncated.";

// A progressive file may repeat scans that say nothing, each costing a pass over all pixels.
// Writers use about 10.
constexpr int kScansMax = 100;

struct JpegScan {
  int sof = 0;  // the frame's marker, 0xC0 to 0xCF; 0 if there is none
  int precision = 0;
  int width = 0;
  int height = 0;
  int components = 0;
  int n_scans = 0;
  int orientation = 1;
  bool complete = false;  // the end-of-image marker is there
};

bool is_frame_marker(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(int marker) {
  return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
}

// Position of the next marker's 0xFF at or after `at`, past entropy-coded data; the file's size if
// there is none.
size_t next_marker(std::span<const uint8_t> file, size_t at) {
  while (at + 1 < file.size()) {
    const void* hit = std::memchr(file.data() + at, 0xFF, file.size() - 1 - at);
    if (hit == nullptr) return file.size();
    at = static_cast<size_t>(static_cast<const uint8_t*>(hit) - file.data());
    const int marker = file[at + 1];
    if (marker != 0x00 && marker != 0xFF && !(marker >= 0xD0 && marker <= 0xD7)) return at;
    at += marker == 0xFF ? 1 : 2;
  }
  return file.size();
}

void read_segment(int marker, std::span<const uint8_t> body, bool& exif_seen, JpegScan& scan) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  if (is_frame_marker(marker) && scan.sof == 0 && body.size() >= 6) {
    scan.sof = marker;
    scan.precision = body[0];
    scan.height = body[1] << 8 | body[2];
    scan.width = body[3] << 8 | body[4];
    scan.components = body[5];
  } else if (marker == 0xE1 && !exif_seen && body.size() >= kExif.size() &&
             std::memcmp(body.data(), kExif.data(), kExif.size()) == 0) {
    exif_seen = true;
    scan.orientation = exif_orientation(body.subspan(kExif.size()));
  } else if (marker == 0xDA) {
    ++scan.n_scans;
  }
}

JpegScan scan_markers(std::span<const uint8_t> file) {
  JpegScan scan;
  bool exif_seen = false;
  size_t at = 2;
  while ((at = next_marker(file, at)) < file.size() && scan.n_scans <= kScansMax) {
    const int marker = file[at + 1];
    at += 2;
    if (marker == 0xD9) {
      scan.complete = true;
      break;
    }
    if (stands_alone(marker)) continue;
    if (file.size() - at < 2) break;
    const size_t length =
        static_cast<size_t>(file[at] << 8 | file[at + 1]);  // counts its own two bytes
    if (length < 2 || length > file.size() - at) break;
    read_segment(marker, file.subspan(at + 2, length - 2), exif_seen, scan);
    at += length;
  }
  return scan;
}

Status check_variant(const JpegScan& scan) {
  if (scan.sof == 0 || scan.n_scans == 0 || !scan.complete)
    return invalid_image(std::string(kDamaged));
  if (scan.n_scans > kScansMax) return invalid_image("The JPEG image has too many scans.");
  constexpr std::array<int, 5> kKnownFrames{0xC0, 0xC1, 0xC2, 0xC9, 0xCA};
  bool known = false;
  for (const int frame : kKnownFrames) known |= scan.sof == frame;
  if (!known) return unsupported_image("Lossless or hierarchical JPEG");
  if (scan.precision != 8) return unsupported_image("JPEG with other than 8 bits a channel");
  if (scan.components != 1 && scan.components != 3 && scan.components != 4)
    return unsupported_image("JPEG with other than 1, 3 or 4 channels");
  return {};
}

// Warnings that leave every pixel intact; any other one (premature end, bad code) means that some
// are invented.
bool harmless(std::string_view warning) {
  return warning.find("extraneous bytes before marker") != std::string_view::npos ||
         warning.find("nknown Adobe color transform") != std::string_view::npos ||
         warning.find("unknown JFIF revision") != std::string_view::npos;
}

// Every block of 8 x 8 takes at least a bit in the Huffman codings: data that cannot reach the size
// its header claims is cut off, and nothing is allocated for it.
bool may_hold(size_t data_bytes, const JpegScan& scan) {
  if (scan.sof > 0xC2) return true;  // arithmetic coding has no such bound
  const auto blocks = [](int side) { return (static_cast<size_t>(side) + 7) / 8; };
  return data_bytes * 8 >= blocks(scan.width) * blocks(scan.height);
}

// (n_pixels, 4) inverted CMYK -> (n_pixels, 3) RGB in place, by PIL's rule: R = K * C / 255,
// rounded.
void rgb_of_inverted_cmyk(std::vector<uint8_t>& pixels) {
  const size_t n = pixels.size() / 4;
  for (size_t i = 0; i < n; ++i) {
    const int k = pixels[i * 4 + 3];
    for (size_t c = 0; c < 3; ++c) {
      // k - round((255 - v) * k / 255), so that rounding falls as in PIL, which stores ink rather
      // than light.
      const int t = (255 - pixels[i * 4 + c]) * k + 128;
      pixels[i * 3 + c] = static_cast<uint8_t>(k - (((t >> 8) + t) >> 8));
    }
  }
  pixels.resize(n * 3);
}

struct TjDelete {
  void operator()(void* handle) const { tjDestroy(handle); }
};

}  // namespace

Result<Image> decode_jpeg(std::span<const uint8_t> file, const ImageLimits& limits) {
  const JpegScan scan = scan_markers(file);
  if (scan.sof != 0)
    if (const Status ok = check_image_size(scan.width, scan.height, limits); !ok)
      return std::unexpected(ok.error());
  if (const Status ok = check_variant(scan); !ok) return std::unexpected(ok.error());
  if (!may_hold(file.size(), scan)) return invalid_image(std::string(kDamaged));

  const std::unique_ptr<void, TjDelete> decoder(tjInitDecompress());
  if (!decoder) return fail(ErrorKind::kResourceExhausted, "There is no memory to decode images.");
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height, &subsampling,
                          &colours) != 0 &&
      tjGetErrorCode(decoder.get()) != TJERR_WARNING)
    return invalid_image(std::string(kDamaged));
  // The library may see another frame header than the walk above did; what it will write decides.
  if (const Status ok = check_image_size(width, height, limits); !ok)
    return std::unexpected(ok.error());

  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const int format = cmyk ? TJPF_CMYK : TJPF_RGB;
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) *
                              (cmyk ? 4U : 3U));
  if (tjDecompress2(decoder.get(), file.data(), file.size(), pixels.data(), width, 0, height,
                    format, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0 &&
      (tjGetErrorCode(decoder.get()) != TJERR_WARNING || !harmless(tjGetErrorStr2(decoder.get()))))
    return invalid_image(std::string(kDamaged));

  if (cmyk) rgb_of_inverted_cmyk(pixels);
  return apply_orientation({width, height, std::move(pixels)}, scan.orientation);
}

}  // namespace hs
