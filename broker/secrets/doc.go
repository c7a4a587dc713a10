// Package secrets stores the secrets that the broker needs and its database must not hold:
// credentials of sites, machines and registries. The main type is Keeper, with the implementations
// Files and Vault. Database rows hold paths. A value is read when it is used, so a rotation needs
// no restart.
//
// # Rules of every Keeper
//
//   - A secret appears, changes and disappears completely or not at all, even if the process is
//     killed at any point.
//   - A path consists of names joined by slashes. Nothing in a path has a special meaning to a file
//     system, a URL or a header.
//   - A value is UTF-8 text of 1 byte to 64 KiB. A document, which is a JSON object with text
//     members only, comes back as the same object, perhaps in another layout. Any other value comes
//     back byte for byte.
//   - No error contains a value, and the package does not log.
//   - "There is no such secret" is distinct from "the keeper cannot answer" (Unreachable). Only the
//     first says anything about the secret.
//
// secretstest.Run checks the rules for each keeper.
//
// # Files
//
// A secret is one age file below the data directory, named by its path: sites/dc1/maas is
// sites/dc1/maas.age. The file is encrypted to the single identity in identity.key (mode 0600),
// which Open creates on its first run. The encryption protects backups and copies of single files;
// a reader of the whole data directory can read the secrets. The path is part of the encrypted
// content, so that a file moved to another name is refused, not served. Paths are opened only
// beneath the directory; a link that leads outside is not followed.
//
// Seal and Unseal encrypt whole backups of a broker (package backup) to recipients that an operator
// names. They are here because only this package imports age.
//
// # Vault
//
// A secret is an entry of a KV engine, version 2. The members of a document are the entry's fields,
// one to one, so that people and other programs can write and read the same entries with Vault's
// own tools:
//
//	vault kv put kv/hostler/maas-sites/ID/power/default user=root pass=@FILE
//
// is read as {"pass":"…","user":"root"}. Any other value is the text of the single field "value".
// Therefore a document with "value" as its only member is refused. Objects with numbers count as
// text, because Vault rounds numbers.
//
// An old value must not survive a rotation: Put sets the entry to keep one version, and Delete
// removes the entry with all versions. Put uses no check-and-set: the last writer wins. Ensure uses
// check-and-set: the first writer wins.
//
// The token comes from a file that another program keeps fresh, or from an AppRole login. The login
// is repeated, at the next use, after nine tenths of the token's life. A denied request may mean
// that the token was revoked. Then a token older than a minute is replaced and the request is
// repeated. A younger token is kept, so that a permanently denied path costs at most one login a
// minute.
//
// Vault's own client library is not used. Its retries, its redirects, its settings from the
// environment (which can turn off the verification of certificates) and its errors (which repeat
// the server's text) would all have to be disabled, leaving four requests. The library also reports
// a missing mount as a missing secret.
package secrets
