#include "loop/tcp.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "loop/socket_address.h"

namespace hs {
namespace {

constexpr unsigned kKeepAliveSeconds = 60;

}  // namespace

struct TcpStream::Handle {
  uv_tcp_t tcp{};
  Loop* loop = nullptr;
  TcpEvents* events = nullptr;  // null once the owner is gone
  uv_shutdown_t shutdown_request{};
  uv_connect_t connect_request{};
  std::function<void()> on_connected;
  bool reset = false;

  explicit Handle(Loop& of) : loop(&of) {
    HS_CHECK_EQ(uv_tcp_init(of.uv(), &tcp), 0);
    tcp.data = this;
  }
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&tcp); }
  const uv_stream_t* stream() const { return reinterpret_cast<const uv_stream_t*>(&tcp); }

  void close() {
    events = nullptr;
    const auto free_handle = [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); };
    // A reset is refused where a shutdown is pending; then an ordinary close must do.
    if (reset && uv_tcp_close_reset(&tcp, free_handle) == 0) return;
    uv_close(reinterpret_cast<uv_handle_t*>(&tcp), free_handle);
  }

  void set_options() {
    // Tokens are small and each is wanted at once; a dead machine at the other end is noticed in
    // the end.
    uv_tcp_nodelay(&tcp, 1);
    uv_tcp_keepalive(&tcp, 1, kKeepAliveSeconds);
  }

  // The owner hears of it once; the handle itself lives until the owner destroys it.
  void broken(int error) {
    if (events == nullptr) return;
    uv_read_stop(stream());
    std::exchange(events, nullptr)->on_broken(uv_strerror(error));
  }

  static void on_alloc(uv_handle_t* handle, size_t, uv_buf_t* buffer) {
    const std::span<char> shared = static_cast<Handle*>(handle->data)->loop->read_buffer();
    *buffer = uv_buf_init(shared.data(), static_cast<unsigned>(shared.size()));
  }

  static void on_read(uv_stream_t* stream, ssize_t n_read, const uv_buf_t* buffer) {
    auto* self = static_cast<Handle*>(stream->data);
    if (self->events == nullptr || n_read == 0) return;
    if (n_read > 0) return self->events->on_read({buffer->base, static_cast<size_t>(n_read)});
    uv_read_stop(stream);
    if (n_read == UV_EOF) return self->events->on_eof();
    self->broken(static_cast<int>(n_read));
  }

  static void on_connect(uv_connect_t* request, int status) {
    auto* self = static_cast<Handle*>(request->data);
    if (status != 0) return self->broken(status);
    self->set_options();
    if (self->events != nullptr && self->on_connected) self->on_connected();
  }

  struct Write {
    uv_write_t request{};
    Handle* handle = nullptr;
    std::string bytes;
  };

  static void on_write(uv_write_t* request, int status) {
    const std::unique_ptr<Write> write(static_cast<Write*>(request->data));
    Handle* self = write->handle;
    if (self->events == nullptr) return;
    if (status != 0) return self->broken(status);
    if (uv_stream_get_write_queue_size(self->stream()) == 0) self->events->on_drained();
  }
};

TcpStream::~TcpStream() {
  handle_->close();
}

std::unique_ptr<TcpStream> TcpStream::take(Loop& loop, int descriptor) {
  auto* handle = new Handle(loop);
  std::unique_ptr<TcpStream> stream(new TcpStream(handle));
  if (uv_tcp_open(&handle->tcp, descriptor) != 0) {
    ::close(descriptor);
    return nullptr;
  }
  handle->set_options();
  return stream;
}

Result<std::unique_ptr<TcpStream>> TcpStream::connect(Loop& loop, std::string_view address,
                                                      uint16_t port, TcpEvents* events,
                                                      std::function<void()> on_connected) {
  const Result<sockaddr_storage> target = parse_address(address, port);
  if (!target) return std::unexpected(target.error());
  auto* handle = new Handle(loop);
  std::unique_ptr<TcpStream> stream(new TcpStream(handle));
  handle->events = events;
  handle->on_connected = std::move(on_connected);
  handle->connect_request.data = handle;
  const int error =
      uv_tcp_connect(&handle->connect_request, &handle->tcp,
                     reinterpret_cast<const sockaddr*>(&*target), &Handle::on_connect);
  if (error != 0) return fail(ErrorKind::kIo, uv_strerror(error));
  return stream;
}

void TcpStream::set_events(TcpEvents* events) {
  handle_->events = events;
}

void TcpStream::start_reading() {
  if (uv_is_closing(reinterpret_cast<const uv_handle_t*>(&handle_->tcp)) != 0) return;
  // Fails where the peer has already ended the connection; whoever writes will hear of it.
  uv_read_start(handle_->stream(), &Handle::on_alloc, &Handle::on_read);
}

void TcpStream::stop_reading() {
  uv_read_stop(handle_->stream());
}

void TcpStream::write(std::string bytes) {
  if (bytes.empty()) return;
  size_t taken = 0;
  if (queued_bytes() == 0) {
    const uv_buf_t buffer = uv_buf_init(bytes.data(), static_cast<unsigned>(bytes.size()));
    const int sent = uv_try_write(handle_->stream(), &buffer, 1);
    if (sent > 0) taken = static_cast<size_t>(sent);
    if (taken == bytes.size()) return;
    // Any failure comes again below, and is then reported through the callback.
  }
  auto* write = new Handle::Write;
  write->handle = handle_;
  write->bytes = std::move(bytes);
  write->request.data = write;
  const uv_buf_t rest =
      uv_buf_init(write->bytes.data() + taken, static_cast<unsigned>(write->bytes.size() - taken));
  if (uv_write(&write->request, handle_->stream(), &rest, 1, &Handle::on_write) != 0) delete write;
}

size_t TcpStream::queued_bytes() const {
  return uv_stream_get_write_queue_size(handle_->stream());
}

size_t TcpStream::unacknowledged_bytes() const {
  uv_os_fd_t fd = -1;
  int held = 0;
  if (uv_fileno(reinterpret_cast<const uv_handle_t*>(&handle_->tcp), &fd) != 0 ||
      ioctl(fd, SIOCOUTQ, &held) != 0)
    held = 0;
  return queued_bytes() + static_cast<size_t>(held);
}

void TcpStream::shutdown() {
  // Fails only where the connection is already broken, which on_broken() tells.
  uv_shutdown(&handle_->shutdown_request, handle_->stream(), [](uv_shutdown_t*, int) {});
}

void TcpStream::reset_on_close() {
  handle_->reset = true;
}

bool TcpStream::is_alive() const {
  uv_os_fd_t fd = -1;
  if (uv_fileno(reinterpret_cast<const uv_handle_t*>(&handle_->tcp), &fd) != 0) return false;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return info.tcpi_state != TCP_CLOSE && info.tcpi_state != TCP_TIME_WAIT;
}

std::string TcpStream::peer_address() const {
  sockaddr_storage address{};
  int length = sizeof address;
  if (uv_tcp_getpeername(&handle_->tcp, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return {};
  return address_text(address);
}

void TcpStream::set_send_buffer_bytes(int bytes) {
  uv_send_buffer_size(reinterpret_cast<uv_handle_t*>(&handle_->tcp), &bytes);
}

void TcpStream::set_receive_buffer_bytes(int bytes) {
  uv_recv_buffer_size(reinterpret_cast<uv_handle_t*>(&handle_->tcp), &bytes);
}

}  // namespace hs
