// A scripted HTTP server on a thread of its own, for tests of what the program fetches.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/loopback_listener.h"

namespace hs::test {

// Answers one request a connection with the bytes that `answer` makes of its head, then closes.
class StubServer {
 public:
  using Answer = std::function<std::string(const std::string& head)>;

  explicit StubServer(Answer answer) : answer_(std::move(answer)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~StubServer() {
    shutdown(listener_.descriptor, SHUT_RDWR);
    thread_.join();
    close(listener_.descriptor);
  }
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;

  // `host`: another name or address of this machine makes another origin.
  std::string url(std::string_view path, std::string_view host = "127.0.0.1") const {
    return "http://" + std::string(host) + ":" + std::to_string(listener_.port) + std::string(path);
  }
  uint16_t port() const { return listener_.port; }
  std::vector<std::string> heads() const {
    const std::scoped_lock lock(mutex_);
    return heads_;
  }

 private:
  void serve() {
    while (true) {
      const int client = accept4(listener_.descriptor, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      std::string head;
      char buffer[4096];
      while (head.find("\r\n\r\n") == head.npos) {
        const ssize_t n = read(client, buffer, sizeof buffer);
        if (n <= 0) break;
        head.append(buffer, static_cast<size_t>(n));
      }
      {
        const std::scoped_lock lock(mutex_);
        heads_.push_back(head);
      }
      const std::string answer = answer_(head);
      std::string_view left = answer;
      while (!left.empty()) {
        const ssize_t n = send(client, left.data(), left.size(), MSG_NOSIGNAL);
        if (n <= 0) break;
        left.remove_prefix(static_cast<size_t>(n));
      }
      close(client);
    }
  }

  Answer answer_;
  const LoopbackListener listener_ = listen_on_loopback();
  mutable std::mutex mutex_;
  std::vector<std::string> heads_;
  std::thread thread_;
};

// A whole answer with its length.
inline std::string http_answer(int status, std::string_view body,
                               const std::vector<std::string>& headers = {}) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " X\r\n";
  for (const std::string& header : headers) out += header + "\r\n";
  out += "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";
  return out + std::string(body);
}

// "GET /path HTTP/1.1..." -> "/path"
inline std::string path_of(const std::string& head) {
  const size_t begin = head.find(' ');
  const size_t end = head.find(' ', begin + 1);
  return begin == head.npos || end == head.npos ? "" : head.substr(begin + 1, end - begin - 1);
}

}  // namespace hs::test
