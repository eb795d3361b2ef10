#include "base/task_certificates.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/c_ptr.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "base/task_tls.h"

namespace base {
namespace {

constexpr absl::Duration kClockSkew = absl::Hours(1);
constexpr absl::Duration kLifetime = absl::Hours(10 * 365 * 24);
constexpr size_t kMaxCommonName = 64;  // X.520 upper bound ub-common-name

using Certificate = CPtr<X509, X509_free>;
using Key = CPtr<EVP_PKEY, EVP_PKEY_free>;
using Bio = CPtr<BIO, BIO_free_all>;

absl::Status Failed(const char* what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InternalError(
      absl::StrCat("cannot make the tasks' certificate: ", what, ": ", reason ? reason : "?"));
}

absl::StatusOr<Key> MakeKey() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("key");
  return key;
}

bool SetTime(ASN1_TIME* field, absl::Time time) {
  return ASN1_TIME_set(field, absl::ToTimeT(time)) != nullptr;
}

// `value` in the syntax of openssl.cnf.
bool Extend(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_nconf_nid(nullptr, &context, nid, value);
  const absl::Cleanup free = [extension] { X509_EXTENSION_free(extension); };
  return extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
}

// A certificate that lacks its extensions and its signature.
absl::StatusOr<Certificate> Begin(const std::string& name, EVP_PKEY* key, absl::Time now) {
  Certificate certificate(X509_new());
  const auto* const text = reinterpret_cast<const unsigned char*>(name.data());
  const int size = static_cast<int>(std::min(name.size(), kMaxCommonName));
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), RandomId() >> 1) != 1 ||
      !SetTime(X509_getm_notBefore(certificate.get()), now - kClockSkew) ||
      !SetTime(X509_getm_notAfter(certificate.get()), now + kLifetime) ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                 text, size, -1, 0) != 1) {
    return Failed("fields");
  }
  return certificate;
}

absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return Failed("signature");
  }
  return absl::OkStatus();
}

absl::StatusOr<Certificate> MakeAuthority(const std::string& owner, EVP_PKEY* key, absl::Time now) {
  ASSIGN_OR_RETURN(Certificate out, Begin(absl::StrCat("authority of ", owner), key, now));
  if (!Extend(out.get(), out.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !Extend(out.get(), out.get(), NID_key_usage, "critical,keyCertSign") ||
      !Extend(out.get(), out.get(), NID_subject_key_identifier, "hash")) {
    return Failed("extensions");
  }
  RETURN_IF_ERROR(Sign(out.get(), out.get(), key));
  return out;
}

absl::StatusOr<Certificate> MakeLeaf(const std::string& owner, EVP_PKEY* key, X509* authority,
                                     EVP_PKEY* authority_key, absl::Time now) {
  ASSIGN_OR_RETURN(Certificate out, Begin(owner, key, now));
  const std::string names = absl::StrCat("DNS:", kTaskTlsName);
  if (!Extend(out.get(), authority, NID_basic_constraints, "critical,CA:FALSE") ||
      !Extend(out.get(), authority, NID_key_usage, "critical,digitalSignature") ||
      !Extend(out.get(), authority, NID_ext_key_usage, "serverAuth,clientAuth") ||
      !Extend(out.get(), authority, NID_subject_alt_name, names.c_str()) ||
      !Extend(out.get(), authority, NID_authority_key_identifier, "keyid:always")) {
    return Failed("extensions");
  }
  RETURN_IF_ERROR(Sign(out.get(), authority, authority_key));
  return out;
}

// What `write` puts into a buffer.
template <typename Write>
absl::StatusOr<std::string> Pem(const Write& write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (bio == nullptr || write(bio.get()) != 1) return Failed("PEM");
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio.get(), &data));
  return std::string(data, size);
}

absl::StatusOr<std::string> PemOf(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

}  // namespace

std::map<std::string, std::string> TaskCertificates::Files() const {
  return {{kTaskTlsAuthority, authority}, {kTaskTlsCertificate, certificate}, {kTaskTlsKey, key}};
}

absl::StatusOr<TaskCertificates> MakeTaskCertificates(const std::string& owner, absl::Time now) {
  ASSIGN_OR_RETURN(const Key authority_key, MakeKey());
  ASSIGN_OR_RETURN(const Certificate authority, MakeAuthority(owner, authority_key.get(), now));
  ASSIGN_OR_RETURN(const Key key, MakeKey());
  ASSIGN_OR_RETURN(const Certificate leaf,
                   MakeLeaf(owner, key.get(), authority.get(), authority_key.get(), now));
  TaskCertificates out;
  ASSIGN_OR_RETURN(out.authority, PemOf(authority.get()));
  ASSIGN_OR_RETURN(out.certificate, PemOf(leaf.get()));
  ASSIGN_OR_RETURN(out.key, Pem([&](BIO* bio) {
                     return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr,
                                                     nullptr);
                   }));
  return out;
}

}  // namespace base
