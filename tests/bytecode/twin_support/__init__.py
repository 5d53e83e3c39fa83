"""What the tests of twins share.  It needs neither pytest nor torch, so that other interpreters can run it."""
