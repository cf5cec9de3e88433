// A repository behind Hugging Face's protocol, scripted by tests; and a checkpoint's small files.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/digest.h"
#include "hub/hugging_face.h"
#include "support/stub_server.h"

namespace hs::test {

inline const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

// One tensor of so many floats.
inline std::string tiny_safetensors(size_t n_floats) {
  std::string header = fmt::format(
      R"({{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}})", n_floats, n_floats * 4);
  while (header.size() % 8 != 0) header += ' ';
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  out += header;
  for (size_t i = 0; i < n_floats * 4; ++i) out += static_cast<char>('A' + i % 23);
  return out;
}

inline std::map<std::string, std::string> tiny_checkpoint() {
  return {{"config.json", R"({"architectures":["LlamaForCausalLM"],"model_type":"llama"})"},
          {"tokenizer.json", "{}"},
          {"model.safetensors", tiny_safetensors(50'000)},
          {"pytorch_model.bin", "a pickle"},
          {"README.md", "words"}};
}

inline std::string sha256_of(std::string_view bytes) {
  Digest digest = Digest::sha256();
  digest.update(bytes);
  return digest.finish();
}

inline std::string git_sha1_of(std::string_view bytes) {
  Digest digest = Digest::git_blob(static_cast<int64_t>(bytes.size()));
  digest.update(bytes);
  return digest.finish();
}

class StubHub {
 public:
  // `special` may answer a request itself: "" leaves it to the hub.
  using Special = std::function<std::string(const std::string& head)>;

  explicit StubHub(Special special = {}) : special_(std::move(special)) {
    server_ =
        std::make_unique<StubServer>([this](const std::string& head) { return answer(head); });
  }

  HubEndpoint endpoint() const {
    HubEndpoint endpoint;
    endpoint.url = server_->url("");
    return endpoint;
  }
  std::vector<std::string> heads() const { return server_->heads(); }
  size_t count(std::string_view text) const {
    size_t n = 0;
    for (const std::string& head : heads()) n += head.find(text) != head.npos ? 1 : 0;
    return n;
  }

  // What a listing tells of the files; tests may change the bytes that are sent.
  std::map<std::string, std::string> listed = tiny_checkpoint();
  std::map<std::string, std::string> sent = tiny_checkpoint();

  // Of a file that is sent, from where the Range header says.
  std::string file_answer(const std::string& head, const std::string& bytes) const {
    const size_t range = head.find("Range: bytes=");
    if (range == head.npos) return http_answer(200, bytes);
    size_t begin = 0;
    const char* digits = head.data() + range + 13;
    std::from_chars(digits, head.data() + head.size(), begin);
    if (begin >= bytes.size()) return http_answer(416, "");
    return http_answer(
        206, bytes.substr(begin),
        {fmt::format("Content-Range: bytes {}-{}/{}", begin, bytes.size() - 1, bytes.size())});
  }

  std::string listing() const {
    std::string siblings;
    for (const auto& [name, bytes] : listed) {
      if (!siblings.empty()) siblings += ',';
      siblings += fmt::format(R"({{"rfilename":"{}","size":{},"blobId":"{}")", name, bytes.size(),
                              git_sha1_of(bytes));
      if (name.ends_with(".safetensors"))
        siblings += fmt::format(R"(,"lfs":{{"sha256":"{}","size":{},"pointerSize":134}})",
                                sha256_of(bytes), bytes.size());
      siblings += '}';
    }
    return fmt::format(R"({{"id":"org/tiny","sha":"{}","siblings":[{}]}})", kCommit, siblings);
  }

 private:
  std::string answer(const std::string& head) {
    if (special_)
      if (std::string own = special_(head); !own.empty()) return own;
    const std::string path = path_of(head);
    if (path.starts_with("/api/models/org/tiny/revision/")) return http_answer(200, listing());
    const std::string prefix = "/org/tiny/resolve/" + kCommit + "/";
    if (path.starts_with(prefix))
      if (const auto file = sent.find(path.substr(prefix.size())); file != sent.end())
        return file_answer(head, file->second);
    return http_answer(404, "{}", {"X-Error-Code: RepoNotFound"});
  }

  Special special_;
  std::unique_ptr<StubServer> server_;
};

}  // namespace hs::test
