#include "app/service_files.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hs {
namespace {

constexpr const char* kServiceState = "/var/lib/heteroserve";

}  // namespace

std::string service_state() {
  return access(kServiceState, X_OK) == 0 ? kServiceState : "";
}

Status act_as_owner(const std::string& directory) {
  if (directory.empty() || geteuid() != 0) return {};
  struct stat info{};
  if (stat(directory.c_str(), &info) != 0 || info.st_uid == 0) return {};
  if (setgroups(1, &info.st_gid) != 0 || setgid(info.st_gid) != 0 || setuid(info.st_uid) != 0)
    return fail(ErrorKind::kIo, fmt::format("cannot go on as the owner of {}: {}", directory,
                                            std::strerror(errno)));
  umask(S_IWGRP | S_IRWXO);
  return {};
}

}  // namespace hs
