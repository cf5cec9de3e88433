// What decode_image makes of files, for tests/end_to_end/pillow_pixels_test.py, which compares it
// with Pillow: decode_pictures < FILES > PICTURES.
//
// In: for each file its length (32 bits, host order) and its bytes. Out: for each file width,
// height (32 bits each) and the RGB pixels; or 0, the length of an error code, and the code. With
// --memory the peak of the process in KiB follows at the end.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "media/image.h"

namespace {

void write_u32(uint32_t value) {
  std::fwrite(&value, sizeof value, 1, stdout);
}

void write_bytes(const void* bytes, size_t n) {
  std::fwrite(bytes, 1, n, stdout);
}

// Of this program alone: getrusage() would begin with the memory of the process that started it.
uint32_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return static_cast<uint32_t>(std::stoul(line.substr(6)));
  return UINT32_MAX;
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t length = 0;
  std::vector<std::byte> file;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) {
    file.resize(length);
    if (std::fread(file.data(), 1, length, stdin) != length) return 1;
    const auto image = hs::decode_image(file, {});
    if (image) {
      write_u32(static_cast<uint32_t>(image->width));
      write_u32(static_cast<uint32_t>(image->height));
      write_bytes(image->rgb.data(), image->rgb.size());
    } else {
      write_u32(0);
      write_u32(static_cast<uint32_t>(image.error().code.size()));
      write_bytes(image.error().code.data(), image.error().code.size());
    }
  }
  if (argc > 1 && std::string_view(argv[1]) == "--memory") write_u32(peak_kib());
  return std::ferror(stdout) != 0;
}
