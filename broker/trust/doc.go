// Package trust holds the keys of a broker. It publishes the trust bundle for nodes, signs tasks,
// issues node and server certificates, and replaces keys while nodes come and go. The main type is
// Authority.
//
// # Keys
//
// DIR/keyring.json lists all keys of a broker, each with its use and the URI of its private part.
// The other files in DIR are private parts. A key ring is created once, completely or not at all:
// it is written to a temporary directory and renamed. With several replicas the ring is created
// once and copied to every replica. The first trust bundle is signed at creation and kept in the
// ring, so that a trust key stored elsewhere is needed only for rotations.
//
// The newest bundle in the store decides which keys a ring must hold. A broker that lacks one of
// these keys, or has another root, refuses to start (key_mismatch). Keys that no bundle names yet
// belong to an interrupted rotation, and the next rotation of that use takes them up. Only the
// operator carries private keys from one replica to another. A replica that comes to lack a key
// during a rotation works on with its other keys, reports the missing keys to the other replicas
// through the database, and reads its ring again until the key is there. If the missing key is the
// CA's, the replica issues no node certificates meanwhile.
//
// # Rotation
//
//	Rotate(use)   a new key joins the bundle, beside the key in force
//	              nodes are sent the bundle, by a task that each of them can verify
//	Finish(use)   the old key leaves, once every replica has the new key and every node
//	              that is not deleted has confirmed, or the operator has named the nodes
//	              left behind; each replica removes the old key
//
// Between Rotate and Finish, both kinds of nodes work:
//
//   - A task is signed with the newest task key that its node has confirmed. The old key stops
//     signing when the last node has confirmed. The old key leaves the bundle only when no open
//     task carries its signature.
//   - A bundle is signed by each trust key of the previous bundle and of its own, so a node may
//     miss bundles in between.
//   - Node certificates come from the new issuing CA at once, and both roots are accepted. The
//     broker itself presents the old chain until the end, because an unconfirmed node can verify
//     only the old chain. A node with a certificate of the old CA is asked to renew and counts as
//     not confirmed.
//   - Statement keys never leave a bundle. A retired statement key keeps its id with its validity,
//     so that old certificates stay verifiable.
//
// Release keys belong to others: their private halves are on no broker. They join and leave the
// bundle, signed as in a rotation, and have no rotation of their own.
//
// The state of a rotation is only in the bundles: a use with two keys in force has been in rotation
// since the first bundle that names the newer key.
package trust
