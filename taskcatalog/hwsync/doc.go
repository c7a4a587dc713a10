// Package hwsync renders what a machine needs so that it reports its hardware to
// MAAS: the machine's credentials, a service and a timer, under the names and with
// the content that MAAS gives them. The agent writes them where it is; before it
// has come the broker does, over SSH. Both write the same.
//
// Credentials hold the machine's own token: whoever has it can undo the machine's
// deployment. They are for root alone.
package hwsync
