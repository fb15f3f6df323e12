"""Messages between leader and ranks."""

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import ParallelismConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.messages import (
    LeaderMessage,
    MessageVerb,
    UpdateMessage,
    encode_message,
    message_config_digest,
)
from tests.unit.runtime.configs import sim_config


def test_heartbeat_is_a_line_of_three_bytes() -> None:
    assert (encode_message(LeaderMessage()), encode_message(UpdateMessage())) == (b"{}\n", b"{}\n")


def test_arguments_of_a_verb_are_decoded_as_plain_data() -> None:
    sent = LeaderMessage(verb=MessageVerb.WARM, arguments=(BucketPhase.PROMPT, Bucket(1, 128, 0)))
    assert LeaderMessage.model_validate_json(encode_message(sent)).arguments == ("prompt", [1, 128, 0])


def test_answer_of_zero_is_encoded() -> None:
    assert (
        UpdateMessage.model_validate_json(encode_message(UpdateMessage(done=MessageVerb.CAPTURE, answer=0))).answer == 0
    )


def test_digest_does_not_depend_on_ports() -> None:
    one, other = sim_config(), sim_config()
    assert one.serving != other.serving
    assert message_config_digest(one) == message_config_digest(other)


def test_digest_differs_between_configurations() -> None:
    config = sim_config()
    other = config.model_copy(update={"parallelism": ParallelismConfig(tensor=2)})
    assert message_config_digest(config) != message_config_digest(other)
