"""The stages of the workflow: one table that the command line, the rules, the cache and the tests read."""

from phrasemt.stages.corpus import (
    CleanPairs,
    CompareSplits,
    ExtractContrasts,
    ExtractText,
    FetchCorpus,
    GenerateDemo,
    PartitionCorpus,
)
from phrasemt.stages.decoding import (
    AnalyseAttention,
    ImportTranslations,
    ScoreChunks,
    ScoreContrasts,
    ScorePerplexity,
    TranslateExamples,
    TuneLengthPenalty,
)
from phrasemt.stages.moses import (
    AlignWords,
    ExtractPhraseTable,
    NormalizeCase,
    TrainLm,
    TrainTruecaser,
    TranslateWithMoses,
    TuneMoses,
)
from phrasemt.stages.report import MakeTable, WriteReport
from phrasemt.stages.scoring import CompareSystems, ScoreByLength, ScoreMetric, ScoreSystem
from phrasemt.stages.stage import Stage
from phrasemt.stages.subwords import ApplySubwords, BuildVocabulary, LearnSubwords, PackExamples, TokenizeText
from phrasemt.stages.syntax import (
    CollectSentences,
    CollectTrees,
    DescribeAnnotator,
    ExtractChunks,
    ExtractPhrases,
    FetchStanzaFile,
    MeasurePhrases,
    ParseSentences,
    TagSentences,
    TrainChunker,
    TrainParser,
    TrainTagger,
    TrainVectors,
)
from phrasemt.stages.training import AverageCheckpoints, TrainModel

_DECLARATIONS: tuple[type[Stage], ...] = (
    FetchCorpus,
    ExtractText,
    PartitionCorpus,
    GenerateDemo,
    ExtractContrasts,
    CleanPairs,
    TokenizeText,
    LearnSubwords,
    ApplySubwords,
    BuildVocabulary,
    PackExamples,
    CompareSplits,
    FetchStanzaFile,
    TrainVectors,
    TrainTagger,
    TrainParser,
    TrainChunker,
    DescribeAnnotator,
    CollectTrees,
    CollectSentences,
    ParseSentences,
    TagSentences,
    ExtractPhrases,
    MeasurePhrases,
    ExtractChunks,
    TrainModel,
    AverageCheckpoints,
    TuneLengthPenalty,
    TranslateExamples,
    ImportTranslations,
    TrainTruecaser,
    NormalizeCase,
    TrainLm,
    AlignWords,
    ExtractPhraseTable,
    TuneMoses,
    TranslateWithMoses,
    ScoreSystem,
    ScoreMetric,
    CompareSystems,
    ScoreContrasts,
    ScorePerplexity,
    ScoreChunks,
    AnalyseAttention,
    ScoreByLength,
    MakeTable,
    WriteReport,
)
# By name, in the order of the work.
STAGES: dict[str, type[Stage]] = {stage.stage_name(): stage for stage in _DECLARATIONS}
