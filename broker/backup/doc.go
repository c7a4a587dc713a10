// Package backup writes what a broker on SQLite is into one encrypted file, and makes a
// data directory of it again. What a restored broker may do is package restore's.
//
// # The file
//
// age, to the recipients that the operator named, around a tar archive:
//
//	manifest.json    versions, when, whose CA, which keys, and of each file below size and SHA-256
//	hostler.db       the database at one moment
//	keys/…           the key ring and the private parts that are kept beside it
//	secrets/…        the secrets that are kept in files, and the identity they are encrypted to
//
// The broker goes on while it is written. Keys are copied before the database and looked
// at again after it: where a rotation fell between, all is copied once more. A secret that
// is removed meanwhile is left out, and one that is set later than the database was read
// is in: a row never names a secret that was not there yet.
//
// Nothing is held in memory: the files are copied beside the data directory's own, hashed
// there, and streamed. The result is written beside its place, synced, and renamed
// there, so that FILE is whole or not there. The copies are locked while their process
// lives, and the next backup removes those that nobody has locked.
//
// age says that a file has not been changed since somebody encrypted it, and not who that
// was: whoever has the recipient can make one. What it cannot make is keys that the nodes
// believe. So a restore signs with the keys that came out, checks that against the root
// that came out, and compares the root with the fingerprint that the operator gives.
//
// # Restoring
//
// Into a data directory that is empty, under the lock that a broker takes:
//
//	restore.unfinished is made     from here on no broker starts on the directory
//	.restoring/ is filled          each name, size and digest as the manifest says, nothing else
//	it is checked                  the database whole and not of a newer schema, keys and root
//	the database is held           one transaction; store.MarkRestored
//	keys, secrets, hostler.db      renamed into place, the database last
//	restore.unfinished is removed
//
// Killed between any two lines, it leaves a directory that a broker refuses
// (restore_unfinished) and a restore begins anew in; and a database that comes to its
// place is held already, whatever happens to the mark.
package backup
