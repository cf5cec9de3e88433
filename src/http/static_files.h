// Files that are part of the program: the web page and what it needs.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "http/handler.h"

namespace hs {

struct StaticFile {
  std::string_view path;  // "/app.js"; "/index.html" also answers for "/"
  std::string_view content_type;
  std::string_view gzip_bytes;  // the content, compressed
  std::string_view etag;        // with its quotes, from the content
};

// Every file below web/, compiled in by cmake/EmbedAssets.cmake (target hs_web).
std::span<const StaticFile> web_assets();

// Whether the table has the path, whatever the method.
bool has_static(std::span<const StaticFile> files, std::string_view path);

// The answer to a GET or HEAD of a path in the table; nothing for other paths and methods. Clients
// that do not accept gzip get the plain bytes. A file whose name carries a hash ("app.3f2a9c10.js")
// may be kept for ever, the others are asked for again each time (If-None-Match -> 304). Every
// answer carries a content security policy under which a page can load nothing from elsewhere and
// run no inline script or style.
std::optional<HttpResponse> serve_static(std::span<const StaticFile> files,
                                         const HttpRequest& request);

}  // namespace hs
