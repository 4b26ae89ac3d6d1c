"""Tasks of our own as one writes them for OmniIsaacGymEnvs: what they import exists only there, or as a stand-in."""
