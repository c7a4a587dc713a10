// Package secrets keeps what the broker must know and its database must not:
// credentials of sites, machines and registries. Rows hold paths; a value is
// read at the moment it is used, so that a rotation needs no restart.
//
// # Files
//
// A secret is one age file below the data directory, named by its path:
// sites/dc1/maas is sites/dc1/maas.age. It is encrypted to the one identity in
// identity.key (mode 0600), which Open makes on its first run. This protects
// backups and copies of single files; whoever reads the whole data directory
// reads the secrets. Several brokers, or a higher bar, need another keeper.
//
// # Rules
//
//   - A secret appears, changes and goes whole or not at all, also where the
//     process is killed between any two lines.
//   - The path is inside what is encrypted: a file that was moved to another
//     name is refused, not served.
//   - Paths are opened beneath the directory only; a link that leads out of it
//     is not followed.
//   - No error holds a value.
package secrets
