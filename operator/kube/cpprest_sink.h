// Where cpprestsdk writes the body of an answer: straight into an Exchange, with no buffer between.
// Only for transport_cpprest.cc.
#pragma once

#include <cpprest/astreambuf.h>

#include <memory>
#include <string_view>
#include <utility>

#include "operator/kube/exchange.h"

namespace kube {

// The library reads on from the network only when the task of a write is complete: back-pressure.
class SinkBuffer : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  explicit SinkBuffer(std::shared_ptr<Exchange> exchange)
      : streambuf_state_manager(std::ios_base::out), exchange_(std::move(exchange)) {}

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(size_t, std::ios_base::openmode) override {}
  size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return traits::eof(); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return traits::eof(); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return traits::eof();
  }
  bool acquire(uint8_t*&, size_t&) override { return false; }
  void release(uint8_t*, size_t) override {}

 protected:
  pplx::task<size_t> _putn(const uint8_t* data, size_t count) override {
    const pplx::task_completion_event<size_t> done;
    // What is not wanted any more counts as written: the caller cancels the request. After a failed
    // write the library would close this buffer and wait for that on one of its few threads, which
    // have to do it.
    exchange_->Data({reinterpret_cast<const char*>(data), count},
                    [done, count](bool) { done.set(count); });
    return pplx::task<size_t>(done);
  }
  pplx::task<int_type> _putc(uint8_t byte) override {
    const auto copy = std::make_shared<uint8_t>(byte);
    return _putn(copy.get(), 1).then([copy](size_t) -> int_type { return *copy; });
  }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }

  // Nothing can be read.
  pplx::task<int_type> _bumpc() override { return End(); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return End(); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return End(); }
  pplx::task<int_type> _ungetc() override { return End(); }
  pplx::task<size_t> _getn(uint8_t*, size_t) override { return pplx::task_from_result<size_t>(0); }
  size_t _scopy(uint8_t*, size_t) override { return 0; }
  uint8_t* _alloc(size_t) override { return nullptr; }
  void _commit(size_t) override {}

 private:
  static pplx::task<int_type> End() { return pplx::task_from_result<int_type>(traits::eof()); }

  const std::shared_ptr<Exchange> exchange_;
};

// The library's handle of a buffer, which only a derived class may make from one's own.
class SinkHandle : public concurrency::streams::streambuf<uint8_t> {
 public:
  explicit SinkHandle(std::shared_ptr<Exchange> exchange)
      : streambuf(std::make_shared<SinkBuffer>(std::move(exchange))) {}
};

}  // namespace kube
