// Package secrets keeps what the broker must know and its database must not:
// credentials of sites, machines and registries. Rows hold paths; a value is
// read at the moment it is used, so that a rotation needs no restart.
//
// # Rules of every Keeper
//
//   - A secret appears, changes and goes whole or not at all, also where the
//     process is killed between any two lines.
//   - A path is names joined by slashes and nothing else: nothing in it means
//     anything to a file system, a URL or a header.
//   - A value is UTF-8 text of 1 byte to 64 KiB. A document, which is a JSON
//     object with members that are all text, comes back as the same object,
//     perhaps in another layout; anything else byte for byte.
//   - No error holds a value, and nothing here logs.
//   - "There is no such secret" is told apart from "the keeper cannot answer"
//     (Unreachable). Only the first says anything about the secret.
//
// secretstest.Run checks them, for each keeper.
//
// # Files
//
// A secret is one age file below the data directory, named by its path:
// sites/dc1/maas is sites/dc1/maas.age. It is encrypted to the one identity in
// identity.key (mode 0600), which Open makes on its first run. This protects
// backups and copies of single files; whoever reads the whole data directory
// reads the secrets. The path is inside what is encrypted, so that a file that
// was moved to another name is refused, not served. Paths are opened beneath
// the directory only; a link that leads out of it is not followed.
//
// Seal and Unseal are for whole backups of a broker (package backup), to recipients that
// an operator names: one package has age.
//
// # Vault
//
// A secret is an entry of a KV engine, version 2. The members of a document are
// the entry's fields, one to one, so that people and other programs write
// and read the same entries with Vault's own tools:
//
//	vault kv put kv/hostler/maas-sites/ID/power/default user=root pass=@FILE
//
// is read as {"pass":"…","user":"root"}. Any other value is the text
// of the one field "value"; therefore a document with that member alone is
// refused. Objects with numbers are text for this purpose, since Vault rounds
// numbers.
//
// A value that was rotated must not linger: Put tells the entry to keep one
// version, and Delete removes the entry with all of them. Put uses no check-and-set:
// the last writer is right. Ensure does: the first one is.
//
// A token comes from a file, which something else keeps fresh, or from an
// AppRole login, which is made again at use when nine tenths of the token's
// time are over. Where a request is denied, the token may have been revoked: one
// that is older than a minute is replaced and the request made again. A younger
// one stays, so that a path which is denied for good costs a login a minute.
//
// Vault's own client library is not used: of it four requests would be left once
// its retries, its redirects, its settings from the environment (which can turn
// off the verification of certificates) and its errors (which repeat what the
// server wrote) are taken away, and it reports a mount that does not exist as a
// secret that does not exist.
package secrets
