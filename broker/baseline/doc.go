// Package baseline compares baselines: what a node was like when one was taken and
// when another was.
//
// A node's baseline was taken before any tenant was on it. Where MAAS has installed
// its system anew, some of what a baseline holds is another by that alone, such as the
// keys by which its sshd is known. Installed tells everything else: only a system that is
// not the same image, or not left as it was installed, has any of that.
package baseline
