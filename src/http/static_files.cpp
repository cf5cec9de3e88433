#include "http/static_files.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/check.h"

namespace hs {
namespace {

constexpr std::string_view kContentSecurityPolicy =
    "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; "
    "object-src 'none'";

// "gzip" or "*" among the codings, not switched off by q=0.
bool accepts_gzip(std::string_view accept_encoding) {
  while (!accept_encoding.empty()) {
    const size_t comma = std::min(accept_encoding.find(','), accept_encoding.size());
    std::string item;
    for (const char c : accept_encoding.substr(0, comma))
      if (c != ' ' && c != '\t')
        item += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string_view coding = std::string_view(item).substr(0, item.find(';'));
    const std::string_view weight = std::string_view(item).substr(coding.size());
    if (coding == "gzip" || coding == "*")
      return !weight.starts_with(";q=0") || weight.find_first_of("123456789", 4) != weight.npos;
    accept_encoding.remove_prefix(std::min(comma + 1, accept_encoding.size()));
  }
  return false;
}

// RFC 9110 13.1.2: a list of tags, or "*"; weak comparison.
bool matches_tag(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != if_none_match.npos;
}

// "app.3f2a9c10.js": a part of at least eight hexadecimal digits before the ending.
bool has_hashed_name(std::string_view path) {
  const size_t ending = path.rfind('.');
  if (ending == path.npos || ending == 0) return false;
  const size_t begin = path.find_last_of("./-", ending - 1);
  if (begin == path.npos || path[begin] == '/') return false;
  const std::string_view part = path.substr(begin + 1, ending - begin - 1);
  return part.size() >= 8 && std::ranges::all_of(part, [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0;
         });
}

std::string gunzip(std::string_view packed) {
  z_stream stream{};
  HS_CHECK_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  // zlib's interface predates const; it does not write here.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  std::array<char, 16 * 1024> part{};
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(part.data(), part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  HS_CHECK_EQ(state, Z_STREAM_END);  // the program's own bytes
  return out;
}

const StaticFile* find_static(std::span<const StaticFile> files, std::string_view path) {
  const auto file = std::ranges::find(files, path == "/" ? "/index.html" : path, &StaticFile::path);
  return file == files.end() ? nullptr : &*file;
}

}  // namespace

bool has_static(std::span<const StaticFile> files, std::string_view path) {
  return find_static(files, path) != nullptr;
}

std::optional<HttpResponse> serve_static(std::span<const StaticFile> files,
                                         const HttpRequest& request) {
  if (request.method != "GET") return std::nullopt;
  const StaticFile* file = find_static(files, request.path);
  if (file == nullptr) return std::nullopt;

  HttpResponse response;
  const std::string_view keep =
      has_hashed_name(file->path) ? "public, max-age=31536000, immutable" : "no-cache";
  response.headers = {{"Content-Type", std::string(file->content_type)},
                      {"ETag", std::string(file->etag)},
                      {"Cache-Control", std::string(keep)},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", std::string(kContentSecurityPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  if (matches_tag(request.header("if-none-match"), file->etag)) {
    response.status = 304;
    return response;
  }
  if (accepts_gzip(request.header("accept-encoding"))) {
    response.headers.push_back({"Content-Encoding", "gzip"});
    response.body = file->gzip_bytes;
  } else {
    response.body = gunzip(file->gzip_bytes);
  }
  return response;
}

}  // namespace hs
