#include "hub/digest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"

namespace hs {

struct Digest::State {
  explicit State(const EVP_MD* kind) {
    HS_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1);
  }
  struct Free {
    void operator()(EVP_MD_CTX* c) const { EVP_MD_CTX_free(c); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Digest::Digest(Digest&& other) noexcept = default;
Digest& Digest::operator=(Digest&& other) noexcept = default;
Digest::~Digest() = default;

Digest Digest::sha256() {
  return Digest(std::make_unique<State>(EVP_sha256()));
}

Digest Digest::git_blob(int64_t bytes) {
  Digest digest(std::make_unique<State>(EVP_sha1()));
  digest.update(fmt::format("blob {}", bytes));
  digest.update(std::string_view("\0", 1));
  return digest;
}

void Digest::update(std::string_view bytes) {
  HS_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  HS_CHECK(EVP_DigestFinal_ex(state_->context.get(), hash.data(), &size) == 1);
  std::string out;
  for (unsigned i = 0; i < size; ++i) fmt::format_to(std::back_inserter(out), "{:02x}", hash[i]);
  return out;
}

Status hash_file(const std::filesystem::path& path,
                 const std::function<bool(std::string_view)>& more) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return fail(ErrorKind::kIo, fmt::format("cannot read {}: {}", path.string(), strerror(errno)));
  std::vector<char> buffer(size_t{1} << 20);
  Status result;
  while (true) {
    const ssize_t n = read(file, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      result =
          fail(ErrorKind::kIo, fmt::format("cannot read {}: {}", path.string(), strerror(errno)));
    if (n <= 0) break;
    if (more({buffer.data(), static_cast<size_t>(n)})) continue;
    result = fail(ErrorKind::kCancelled, "The work was cancelled.", "cancelled");
    break;
  }
  close(file);
  return result;
}

}  // namespace hs
