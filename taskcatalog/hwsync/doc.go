// Package hwsync renders the files with which a machine reports its hardware to MAAS: the machine's
// credentials, a service and a timer. Names and contents are those that MAAS itself uses. The agent
// writes the files on its node; before an agent is installed, the broker writes the same files over
// SSH. The main function is Render. The package writes nothing itself.
//
// The credentials contain the machine's own token. Anybody with the token can undo the machine's
// deployment, so only root may read it.
package hwsync
