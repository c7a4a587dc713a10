// Package backup writes the whole state of a broker on SQLite into one encrypted file (Write), and
// makes a data directory from such a file (Restore). Package restore says what a restored broker
// may do.
//
// # The file
//
// The file is encrypted with age, to the recipients that the operator named, and holds a tar
// archive:
//
//	manifest.json    versions, time, CA, keys, and for each file below size and SHA-256
//	hostler.db       the database at one moment
//	keys/…           the key ring and the private parts that are kept beside it
//	secrets/…        the secrets that are kept in files, and the identity they are encrypted to
//
// The broker goes on during the backup. Keys are copied before the database and compared after it:
// if a rotation fell between, both are copied once more. A secret that is removed meanwhile is left
// out, and a secret that is set after the read of the database is included: a row never names a
// secret that did not exist yet.
//
// No file is held in memory: the files are copied beside the data directory's own, hashed there,
// and streamed. The result is written beside FILE, synced, and renamed, so that FILE is complete or
// does not exist. The copies are locked while their process lives, and the next backup removes
// copies without a lock.
//
// age proves that a file has not been changed since its encryption, and does not prove who
// encrypted it: anybody with the recipient can make such a file. Nobody else can make keys that the
// nodes trust. So a restore signs with the restored keys, checks the signature against the restored
// root, and compares the root with the fingerprint that the operator gives.
//
// # Restoring
//
// A restore writes into an empty data directory, under the lock that a broker takes:
//
//	restore.unfinished is made     from here on no broker starts on the directory
//	.restoring/ is filled          each name, size and digest as the manifest says, nothing else
//	the files are checked          the database whole and not of a newer schema, keys and root
//	the database is held           one transaction; store.MarkRestored
//	keys, secrets, hostler.db      renamed into place, the database last
//	restore.unfinished is removed
//
// A restore that is killed between any two lines leaves a directory that a broker refuses
// (restore_unfinished), and in which a restore starts over. A database that reaches its place is
// held already, whatever happens to the mark.
package backup
