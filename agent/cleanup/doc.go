// Package cleanup empties what a tenant could write to: containers, temporary directories, scratch,
// homes, IPC, dumps, swap, device mappings and free blocks.
//
// Clean carries out node.storage_cleanup; Steps is its order. Package validate looks at the same
// places and takes their names from here, so that a cleanup and a validation agree.
//
// # Invariants
//
//   - Programs that write, such as container engines, end before their directories are emptied.
//   - What the node's baseline has, stays. Without a baseline no home is touched.
//   - Mounts that the baseline does not have are detached before a directory is swept.
//   - A cleanup continues past a path that fails, reports a disposition for each path, and fails at
//     the end if any path failed.
//   - A cleanup writes nothing of its own to a disk, so that a full disk does not stop it.
//
// The package ends no user's processes (users does), erases no disk (erase) and judges nothing
// (validate).
package cleanup
