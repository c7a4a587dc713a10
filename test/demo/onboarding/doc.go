// Command onboarding shows an operator's work with a rack of machines: a batch, a machine without a
// boot disk, a hostname that another machine already has, the stop button, and the status screen
// for the person on call. The MAAS region is simulated, and the systems that it installs are nodes of
// test/try/simnode: the agent over a directory, with fake GPUs. So the demo needs neither a guest
// nor root. It takes about two minutes, mostly for the broker's next looks, and leaves nothing
// behind.
package main
