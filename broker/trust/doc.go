// Package trust holds the keys of a broker and what follows from them: the
// trust bundle that nodes believe, the signature on each task, node and server
// certificates, and the replacement of any key while nodes come and go.
//
// # Keys
//
// All keys of a broker are listed in DIR/keyring.json, each with its use and
// the URI under which its private part is opened; the files beside it are such
// private parts. A key ring is made once, whole or not at all: it is written
// beside its place and renamed. With several replicas it is made once and
// every replica gets the same. The first trust bundle is signed then and kept
// in the ring, so that a trust key that lives elsewhere is needed only to
// rotate.
//
// What a ring must hold is decided by the newest bundle in the store: a broker
// that lacks one of its keys, or whose root is another's, refuses to start
// (key_mismatch). Keys that no bundle names yet are of a rotation that was
// interrupted, and the next one of that use takes them up. Nothing carries
// private keys from one replica to another but its operator: a replica that
// comes to lack one in a rotation works on with what it has, tells the others
// by the database what it lacks, and reads its ring until the key is there. It
// issues no node certificate meanwhile if that key is the CA's.
//
// # Rotation
//
//	Rotate(use)   a new key joins the bundle, beside the one in force
//	              nodes are sent the bundle, by a task each can verify
//	Finish(use)   the old key leaves, once every replica has the new one and
//	              every node that is not deleted has confirmed, or the operator
//	              has named those left behind; each replica removes it
//
// Between the two, everything works with both kinds of nodes:
//
//   - A task is signed with the newest task key that its node has confirmed.
//     The old key stops signing when the last node has confirmed and leaves
//     only when no open task carries its signature.
//   - A bundle is signed by each trust key of the bundle before it and of its
//     own, so a node may miss bundles in between.
//   - Node certificates come from the new issuing CA at once, and both roots
//     are accepted. The broker itself presents the old chain until the end, as
//     that is what an unconfirmed node can verify. A node that still holds a
//     certificate of the old CA is asked to renew and counts as not confirmed.
//   - Statement keys never leave a bundle. A retired one keeps its id with the
//     validity it had, so that old certificates stay verifiable.
//
// Release keys are others': their private halves are on no broker. They join and leave
// the bundle, signed as in a rotation, and have no rotation of their own.
//
// The rotation's state is in the bundles and nowhere else: a use with two keys
// in force is in rotation, since the first bundle that names the newer one.
package trust
